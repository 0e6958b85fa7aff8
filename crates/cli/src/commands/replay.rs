//! `cavalcade replay`: a run without a flush, once more in one process.

use crate::arguments::ReplayRun;
use crate::{exit, output};
use anyhow::Result;
use cavalcade::Replay;

pub(crate) fn run(arguments: &ReplayRun) -> Result<u8> {
    let replay = Replay::of(&arguments.run, arguments.tolerance)?;
    if arguments.json {
        output::print(&serde_json::to_string(&replay)?);
    } else {
        let bounded = |what: &str, [found, most]: [u64; 2]| {
            vec![what.to_owned(), found.to_string(), most.to_string()]
        };
        let rows = [
            bounded("own updates that weights lacked", replay.local_staleness),
            bounded("another replica's updates that weights lacked", replay.global_staleness),
            bounded("waves ahead of what it had of the others", replay.waves_ahead),
        ];
        output::print(&output::table(&["at most", "found", "allowed"], &rows));
        let verdict = if replay.passed { "equal" } else { "NOT equal" };
        output::print(&format!(
            "\n{} waves: the loss differs by {:.2e} at most (relative), the final weights by \
             {:.2e} (L2 of the difference over L2 of the whole)\n{verdict} to the replay within \
             {:e}",
            replay.waves, replay.loss_difference, replay.weight_difference, replay.tolerance
        ));
    }
    Ok(if replay.passed { exit::OK } else { exit::CHECK_FAILED })
}
