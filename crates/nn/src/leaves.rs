//! From the parameters that a model's description lists for a chunk to Burn's.

use crate::ChunkParam;
use burn::Tensor;
use burn::module::Param;
use burn::tensor::{Device, TensorData};
use cavalcade_model::{ParamRef, init_values};

/// Makes the parameters of a chunk with their initial values.
pub(crate) struct Leaves<'a> {
    pub(crate) refs: &'a [ParamRef<'a>],
    pub(crate) seed: u64,
    pub(crate) device: &'a Device,
}

impl Leaves<'_> {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.refs.iter().any(|param| param.spec.name == name)
    }

    pub(crate) fn find<const D: usize>(&self, name: &str) -> Option<Param<Tensor<D>>> {
        let spec = self.refs.iter().find(|param| param.spec.name == name)?.spec;
        let data = TensorData::new(init_values(spec, self.seed), spec.shape.clone());
        Some(Param::from_data(data, self.device))
    }

    pub(crate) fn get<const D: usize>(&self, name: &str) -> Param<Tensor<D>> {
        self.find(name).unwrap_or_else(|| panic!("the chunk's description has `{name}`"))
    }

    /// The parameters with their places in the flat buffers.
    pub(crate) fn stored(&self) -> Vec<ChunkParam> {
        let mut offset = 0;
        let place = |param: &ParamRef<'_>| {
            let start = offset;
            offset += param.spec.n_values();
            let (name, shape) = (param.spec.name.clone(), param.spec.shape.clone());
            ChunkParam { name, shape, offset: start, tie: param.tie, layer: param.layer }
        };
        self.refs.iter().map(place).collect()
    }
}
