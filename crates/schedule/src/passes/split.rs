//! Splits every whole backward into its two parts, the input's first: the stage before need not
//! wait for the parameter gradients of this one.

use crate::op::Pass;
use crate::order::ComputeOrder;

pub(super) fn backward(order: &mut ComputeOrder) {
    for program in &mut order.programs {
        let split = program.iter().flat_map(|&(pass, chunk, microbatch)| {
            let (first, second) = match pass {
                Pass::Backward => (Pass::BackwardInput, Some(Pass::BackwardWeight)),
                other => (other, None),
            };
            let rest = second.map(|pass| (pass, chunk, microbatch));
            [(first, chunk, microbatch)].into_iter().chain(rest)
        });
        *program = split.collect();
    }
}
