//! Schedules run without an interpreter: by the dependencies alone.

use cavalcade_schedule::{ActionId, CheckedSchedule, Op};

/// Runs actions in any order that the dependencies allow, drawn by `seed`, and says whether all of
/// them ran.
pub(crate) fn runs_to_the_end(checked: &CheckedSchedule, seed: u64) -> bool {
    let mut state = seed | 1;
    let mut choices = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % n
    };
    let n_actions = checked.n_actions() as u32;
    let mut missing: Vec<u32> =
        (0..n_actions).map(|a| checked.n_predecessors(ActionId(a))).collect();
    let mut sent = vec![false; checked.schedule().transfers.len()];
    let mut is_pushed = vec![false; checked.n_actions()];
    let mut arrived = vec![0; checked.schedule().collectives.len()];
    let mut ready: Vec<ActionId> =
        (0..n_actions).map(ActionId).filter(|a| missing[a.idx()] == 0).collect();
    let mut n_done = 0;
    while !ready.is_empty() {
        let startable: Vec<usize> = (0..ready.len())
            .filter(|&i| match checked.op(ready[i]) {
                Op::Recv(id) => sent[id.idx()],
                Op::Pull(_) => checked.pushes_before(ready[i]).all(|push| is_pushed[push.idx()]),
                _ => true,
            })
            .collect();
        if startable.is_empty() {
            return false;
        }
        let action = ready.swap_remove(startable[choices(startable.len())]);
        let done = match checked.op(action) {
            Op::Collective(id) => {
                arrived[id.idx()] += 1;
                let members = checked.members(id);
                if arrived[id.idx()] == members.len() { members.to_vec() } else { Vec::new() }
            }
            Op::Send(id) => {
                sent[id.idx()] = true;
                vec![action]
            }
            Op::Push(_) => {
                is_pushed[action.idx()] = true;
                vec![action]
            }
            _ => vec![action],
        };
        for action in done {
            n_done += 1;
            for later in checked.successors(action) {
                missing[later.idx()] -= 1;
                if missing[later.idx()] == 0 {
                    ready.push(*later);
                }
            }
        }
    }
    n_done == n_actions
}
