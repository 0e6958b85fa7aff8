//! Between a Burn module's parameters and a chunk's flat buffers.
//!
//! Burn visits parameters in the order of a module's fields; the flat buffers have the order of the
//! model's description. A [`Layout`] maps one to the other by name, once, at the start.

use crate::ChunkParam;
use crate::tap::leaf_id;
use burn::Tensor;
use burn::backend::autodiff::NodeId;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Gradients, TensorData};
use std::collections::HashMap;
use std::ops::Range;

/// The parameters of a chunk and where the module's visiting order finds them.
#[derive(Debug)]
pub(crate) struct Layout {
    /// In storage order.
    pub(crate) params: Vec<ChunkParam>,
    /// The place in the flat buffers of each parameter, in visiting order.
    slots: Vec<Range<usize>>,
}

impl Layout {
    /// The layout of a module in its own order, under the paths of its fields.
    pub(crate) fn of_module<M: Module>(module: &M) -> Self {
        let mut offset = 0;
        let mut params = Vec::new();
        for (name, shape) in trainable(module) {
            let param = ChunkParam { name, shape, offset, tie: None, layer: 0 };
            offset += param.n_values();
            params.push(param);
        }
        let slots = params.iter().map(range_of).collect();
        Self { params, slots }
    }

    /// The layout that stores `params`, where `name_of` turns a field's path into a name of theirs.
    ///
    /// # Panics
    /// If names or shapes of module and list differ.
    pub(crate) fn of_params<M: Module>(
        module: &M,
        params: Vec<ChunkParam>,
        name_of: &dyn Fn(&str) -> String,
    ) -> Self {
        let found = trainable(module);
        assert_eq!(found.len(), params.len(), "module and description have the same parameters");
        let slots = found.into_iter().map(|(path, shape)| {
            let name = name_of(&path);
            let param = params.iter().find(|param| param.name == name);
            let param = param.unwrap_or_else(|| panic!("the description lacks `{name}`"));
            assert_eq!(shape, param.shape, "module and description agree on `{name}`");
            range_of(param)
        });
        let slots = slots.collect();
        Self { params, slots }
    }

    /// The length of the flat buffers.
    pub(crate) fn n_values(&self) -> usize {
        self.slots.iter().map(Range::len).sum()
    }

    /// Copies the module's parameters into `weights`.
    pub(crate) fn read<M: Module>(&self, module: &M, weights: &mut [f32]) {
        module.visit(&mut Read { weights, slots: self.slots.iter() });
    }

    /// The module with `weights` as its parameters: new leaves that belong to no other graph.
    pub(crate) fn write<M: Module>(&self, module: M, weights: &[f32]) -> M {
        module.map(&mut Write { weights, slots: self.slots.iter() })
    }

    /// Takes the gradients of the module's parameters out of `found`, with their places; and the
    /// places of all its leaves.
    pub(crate) fn take<M: Module>(&self, module: &M, found: &mut Gradients) -> Taken {
        let (gradients, leaves) = (Vec::new(), HashMap::new());
        let mut take = Take { found, gradients, leaves, slots: self.slots.iter() };
        module.visit(&mut take);
        (take.gradients, take.leaves)
    }
}

fn range_of(param: &ChunkParam) -> Range<usize> {
    param.offset..param.offset + param.n_values()
}

/// Paths and shapes of the parameters that require gradients, in visiting order.
fn trainable<M: Module>(module: &M) -> Vec<(String, Vec<usize>)> {
    let mut list = List { path: Vec::new(), found: Vec::new() };
    module.visit(&mut list);
    list.found
}

struct List {
    path: Vec<String>,
    found: Vec<(String, Vec<usize>)>,
}

impl ModuleVisitor for List {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.val();
        if tensor.is_require_grad() {
            self.found.push((self.path.join("."), tensor.dims().to_vec()));
        }
    }
}

type Slots<'a> = std::slice::Iter<'a, Range<usize>>;

fn next(slots: &mut Slots<'_>) -> Range<usize> {
    slots.next().expect("a module's parameters never change in number").clone()
}

struct Read<'a> {
    weights: &'a mut [f32],
    slots: Slots<'a>,
}

impl ModuleVisitor for Read<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.val();
        if tensor.is_require_grad() {
            let data = tensor.inner().into_data();
            self.weights[next(&mut self.slots)].copy_from_slice(floats(&data));
        }
    }
}

struct Write<'a> {
    weights: &'a [f32],
    slots: Slots<'a>,
}

impl ModuleMapper for Write<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if !param.val().is_require_grad() {
            return param;
        }
        param.map(|old| {
            let (shape, device) = (old.shape(), old.device());
            drop(old);
            let values = self.weights[next(&mut self.slots)].to_vec();
            Tensor::from_data(TensorData::new(values, shape), &device).require_grad()
        })
    }
}

/// Gradients, and the places of leaves, in the flat buffers.
type Taken = (Vec<(Range<usize>, TensorData)>, HashMap<NodeId, Range<usize>>);

struct Take<'a> {
    found: &'a mut Gradients,
    gradients: Vec<(Range<usize>, TensorData)>,
    leaves: HashMap<NodeId, Range<usize>>,
    slots: Slots<'a>,
}

impl ModuleVisitor for Take<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.val();
        if !tensor.is_require_grad() {
            return;
        }
        let slot = next(&mut self.slots);
        self.leaves.insert(leaf_id(&tensor), slot.clone());
        // A parameter that the graph does not hold has no gradient there.
        if let Some(gradient) = tensor.grad_remove(self.found) {
            self.gradients.push((slot, gradient.into_data()));
        }
    }
}

/// The values of a tensor's data.
pub(crate) fn floats(data: &TensorData) -> &[f32] {
    data.as_slice().expect("chunks compute in f32")
}
