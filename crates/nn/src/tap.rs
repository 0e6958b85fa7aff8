//! An operation that hands on its input unchanged and, in the backward pass, shows the gradient
//! that arrives there to a [`Tap`]: how a gradient inside a graph is seen at all.
//!
//! It is an extension of Burn's backends, by Burn's own mechanism. Flex is the only backend that
//! chunks compute on; another one needs an implementation here.

use burn::Tensor;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, backend_extension};
use std::fmt::Debug;
use std::sync::Arc;

/// What sees the gradient of the tensor that was tapped: called once, by the backward pass.
pub(crate) trait Tap: Debug + Send + Sync {
    fn reached(&self, gradient: Tensor<3>);
}

/// `x` `[B, T, W]`, whose gradient `tap` sees.
///
/// A tensor that no leaf leads to becomes a leaf, so that the gradient arrives here and no further.
pub(crate) fn tapped(x: Tensor<3>, tap: Arc<dyn Tap>) -> Tensor<3> {
    Tensor::from_dispatch(<Dispatch as TapBackend>::tapped(x.into_dispatch(), tap))
}

/// What tells a leaf from all others.
pub(crate) fn leaf_id<const D: usize>(leaf: &Tensor<D>) -> NodeId {
    let leaf = leaf.clone().try_into_primitive::<Autodiff<Flex>>();
    leaf.expect("a chunk's parameters are leaves on Flex").id()
}

#[backend_extension(Autodiff, Flex)]
pub(crate) trait TapBackend: Backend {
    fn tapped(x: FloatTensor<Self>, tap: Arc<dyn Tap>) -> FloatTensor<Self>;
}

impl TapBackend for Flex {
    fn tapped(x: FloatTensor<Self>, _: Arc<dyn Tap>) -> FloatTensor<Self> {
        x
    }
}

#[derive(Debug)]
struct Show;

impl Backward<Flex, 1> for Show {
    type State = Arc<dyn Tap>;

    fn backward(self, ops: Ops<Self::State, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<Flex>(&ops.node);
        ops.state.reached(Tensor::from_primitive::<Flex>(gradient.clone()));
        let [parent] = ops.parents;
        if let Some(parent) = parent {
            gradients.register::<Flex>(parent.id, gradient);
        }
    }
}

impl<C: CheckpointStrategy> TapBackend for Autodiff<Flex, C> {
    fn tapped(x: FloatTensor<Self>, tap: Arc<dyn Tap>) -> FloatTensor<Self> {
        let x = if x.is_tracked() {
            x
        } else {
            Self::float_set_require_grad(Self::float_detach(x), true)
        };
        let (output, node) = x.into_parts();
        match Show.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(ops) => ops.finish(tap, output),
            OpsKind::UnTracked(ops) => ops.finish(output),
        }
    }
}
