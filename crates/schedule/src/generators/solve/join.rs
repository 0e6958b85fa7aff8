//! Whole backwards where a split does not help: fewer passes, and nothing ends later.

use super::line::{Line, Words};
use crate::op::Pass;

/// Joins an input backward with the weight backward right after it, of the same micro-batch, if
/// that leaves the end of all passes where it is.
///
/// Last things first, every pass is put as late as it may be; a joined pair may not start earlier
/// than its input backward does when all passes start as soon as they can. Whatever comes before
/// then fits as it did.
pub(super) fn pairs(line: &Line, words: &Words) -> Words {
    let mut seen = Vec::with_capacity(words.iter().map(Vec::len).sum());
    let Some(end) = line.run(words, |stage, pass, start| seen.push((stage, pass, start))) else {
        return words.clone();
    };
    let n_stages = line.n_stages();
    // By stage, micro-batches whose pass is still to come on the way from the end to the start.
    let n = line.n_microbatches as usize;
    let (mut forwards, mut inputs, mut weights) =
        (vec![n; n_stages], vec![n; n_stages], vec![n; n_stages]);
    // Latest starts of what is after the pass at hand: on the stage, and by micro-batch.
    let mut next_start = vec![end; n_stages];
    let mut forward_start = vec![vec![end; n]; n_stages];
    let mut input_start = vec![vec![end; n]; n_stages];
    let mut weight_start = vec![vec![end; n]; n_stages];
    let mut joined: Words = vec![Vec::new(); n_stages];
    for (stage, pass, earliest) in seen.into_iter().rev() {
        let count = match pass {
            Pass::Forward => &mut forwards[stage],
            Pass::BackwardWeight => &mut weights[stage],
            _ => &mut inputs[stage],
        };
        *count -= 1;
        let k = *count;
        if pass == Pass::Backward {
            weights[stage] -= 1;
        }
        // What needs this pass' message.
        let reader = match pass {
            Pass::Forward if stage + 1 < n_stages => Some((stage + 1, &forward_start)),
            Pass::BackwardInput | Pass::Backward if stage > 0 => Some((stage - 1, &input_start)),
            _ => None,
        };
        let sent_by = reader.map_or(end, |(to, starts)| starts[to][k] - line.hop(stage, to));
        let is_pair = pass == Pass::BackwardInput
            && joined[stage].last() == Some(&Pass::BackwardWeight)
            && weights[stage] == k;
        let whole = line.time(stage, Pass::Backward);
        let after_pair = weight_start[stage][k] + line.time(stage, Pass::BackwardWeight);
        let latest_whole = sent_by.min(after_pair).checked_sub(whole);
        let (pass, latest) = match latest_whole.filter(|&latest| is_pair && latest >= earliest) {
            Some(latest) => {
                joined[stage].pop();
                (Pass::Backward, latest)
            }
            None => (pass, sent_by.min(next_start[stage]) - line.time(stage, pass)),
        };
        joined[stage].push(pass);
        next_start[stage] = latest;
        match pass {
            Pass::Forward => forward_start[stage][k] = latest,
            Pass::BackwardWeight => weight_start[stage][k] = latest,
            _ => input_start[stage][k] = latest,
        }
    }
    joined.iter_mut().for_each(|word| word.reverse());
    joined
}
