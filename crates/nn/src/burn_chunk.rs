//! Any Burn module as a [`Chunk`].
//!
//! A module that overrides [`ChunkModule::forward_split`] has its weight gradients put off by
//! [`Chunk::backward_input`]. Of any other, that pass computes all gradients and keeps them:
//! correct, and no faster than [`Chunk::backward`].

use crate::layout::Layout;
use crate::weight_pass::{Owed, WeightPass};
use crate::{
    Activation, Chunk, ChunkError, ChunkInput, ChunkModule, ChunkOutput, ChunkParam, ModuleInput,
    Targets,
};
use burn::Tensor;
use burn::tensor::{Device, Int, TensorData};
use cavalcade_units::MicrobatchId;
use std::collections::HashMap;

/// Where in the model a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkEnds {
    /// Nothing comes before it: its input needs no gradient.
    pub first: bool,
    /// Nothing comes after it: it ends in the loss.
    pub last: bool,
}

/// A Burn module, its flat buffers, and a graph for each micro-batch in flight.
///
/// Every parameter that requires a gradient is there three times: flat, as a Burn tensor, and as
/// its gradient, 12 bytes in all. The gradients of one backward pass are there a fourth time until
/// it ends; so are, between the two halves of a split one, those that are not put off.
#[derive(Debug)]
pub struct BurnChunk<M> {
    /// Absent only while new weights are written into it.
    module: Option<M>,
    ends: ChunkEnds,
    device: Device,
    layout: Layout,
    weights: Vec<f32>,
    gradients: Vec<f32>,
    flights: HashMap<MicrobatchId, Flight<M>>,
    /// What those micro-batches still have to add that are between the halves of their backward.
    owed: HashMap<MicrobatchId, Owed>,
}

/// What a micro-batch keeps between its passes.
#[derive(Debug)]
struct Flight<M> {
    /// The parameters as the forward pass used them.
    module: M,
    /// The leaf whose gradient is handed back; none in the first chunk.
    input: Option<Tensor<3>>,
    root: Root,
    weight_pass: WeightPass,
}

#[derive(Debug)]
enum Root {
    Output(Tensor<3>),
    Loss(Tensor<1>),
}

impl<M: ChunkModule> BurnChunk<M> {
    /// A chunk of `module` with the weights that it has, stored in the order of its fields and
    /// named by their paths. Parameters that do not require a gradient stay as they are.
    ///
    /// # Panics
    /// If the module's parameters are not `f32`.
    pub fn new(module: M, device: &Device, ends: ChunkEnds) -> Self {
        let module = module.train();
        let layout = Layout::of_module(&module);
        Self::with_layout(module, device, ends, layout)
    }

    /// A chunk of `module` that stores its parameters under `layout`.
    pub(crate) fn with_layout(module: M, device: &Device, ends: ChunkEnds, layout: Layout) -> Self {
        let mut weights = vec![0.0; layout.n_values()];
        layout.read(&module, &mut weights);
        // New leaves: the caller may keep a clone of the module that trains elsewhere.
        let module = Some(layout.write(module, &weights));
        let gradients = vec![0.0; weights.len()];
        let (device, flights) = (device.clone().autodiff(), HashMap::new());
        let owed = HashMap::new();
        Self { module, ends, device, layout, weights, gradients, flights, owed }
    }

    /// What a micro-batch between the halves of its backward pass still has to add.
    #[cfg(test)]
    pub(crate) fn owed(&self, microbatch: MicrobatchId) -> &Owed {
        &self.owed[&microbatch]
    }

    fn module(&self) -> &M {
        self.module.as_ref().expect("the module is back before any call returns")
    }

    /// Checks the input against its own shape and copies it to `device`.
    fn upload(&self, input: ChunkInput, device: &Device) -> Result<ModuleInput, ChunkError> {
        match input {
            ChunkInput::Tokens { ids, batch, sequence } => {
                if let Some(vocab) = self.module().vocab() {
                    check_ids(&ids, vocab)?;
                }
                Ok(ModuleInput::Tokens(ids_tensor("the input", ids, [batch, sequence], device)?))
            }
            ChunkInput::Activation(Activation { data, shape }) => {
                let wanted = shape.iter().product();
                check_length("the input activation", data.len(), wanted)?;
                Ok(ModuleInput::Activation(Tensor::from_data(TensorData::new(data, shape), device)))
            }
        }
    }

    fn loss(
        &self,
        module: &M,
        output: Tensor<3>,
        targets: Targets,
        device: &Device,
    ) -> Result<Tensor<1>, ChunkError> {
        let [batch, sequence, vocab] = output.dims();
        check_ids(&targets.ids, vocab)?;
        let targets = ids_tensor("the targets", targets.ids, [batch, sequence], device)?;
        Ok(module.loss(output, targets))
    }

    fn check_targets(&self, targets: Option<&Targets>) -> Result<(), ChunkError> {
        match (targets.is_some(), self.ends.last) {
            (true, false) => Err(ChunkError::Targets { found: "given", wanted: "not taken" }),
            (false, true) => Err(ChunkError::Targets { found: "missing", wanted: "needed" }),
            _ => Ok(()),
        }
    }

    /// Takes out the flight of a micro-batch whose backward pass can start with `gradient`.
    fn land(
        &mut self,
        microbatch: MicrobatchId,
        gradient: Option<&Activation>,
    ) -> Result<Flight<M>, ChunkError> {
        let Some(flight) = self.flights.get(&microbatch) else {
            return Err(match self.owed.contains_key(&microbatch) {
                true => ChunkError::InputPassDone { microbatch },
                false => ChunkError::NotInFlight { microbatch },
            });
        };
        check_gradient(&flight.root, gradient)?;
        Ok(self.flights.remove(&microbatch).expect("it was found above"))
    }

    /// Runs a graph's backward pass: the gradient of the chunk's input, and what is left to do.
    fn differentiate(
        &self,
        flight: Flight<M>,
        gradient: Option<Activation>,
    ) -> (Option<Activation>, Owed) {
        let Flight { module, input, root, weight_pass } = flight;
        let root = match (root, gradient) {
            (Root::Output(output), Some(Activation { data, shape })) => {
                let gradient = Tensor::<3>::from_data(TensorData::new(data, shape), &self.device);
                (output * gradient).sum()
            }
            (Root::Loss(loss), _) => loss,
            (Root::Output(_), None) => unreachable!("check_gradient refuses it"),
        };
        let mut found = root.backward();
        drop(root);
        let (kept, leaves) = self.layout.take(&module, &mut found);
        let input_gradient = input.map(|leaf| {
            let shape = leaf.dims();
            match leaf.grad_remove(&mut found) {
                Some(gradient) => download(gradient),
                None => Activation { data: vec![0.0; shape.iter().product()], shape },
            }
        });
        (input_gradient, weight_pass.owed(kept, leaves))
    }

    fn plain_output(&self, input: ChunkInput) -> Result<(M, Device, Tensor<3>), ChunkError> {
        let device = self.device.clone().without_autodiff();
        let module = self.module().valid();
        let output = module.forward(self.upload(input, &device)?)?;
        Ok((module, device, output))
    }
}

impl<M: ChunkModule> Chunk for BurnChunk<M> {
    fn params(&self) -> &[ChunkParam] {
        &self.layout.params
    }

    fn weights(&self) -> &[f32] {
        &self.weights
    }

    fn gradients(&self) -> &[f32] {
        &self.gradients
    }

    fn gradients_mut(&mut self) -> &mut [f32] {
        &mut self.gradients
    }

    fn update(&mut self, change: &mut dyn FnMut(&mut [f32], &mut [f32])) {
        change(&mut self.weights, &mut self.gradients);
        let layout = &self.layout;
        self.module = self.module.take().map(|module| layout.write(module, &self.weights));
    }

    fn forward(
        &mut self,
        microbatch: MicrobatchId,
        input: ChunkInput,
        targets: Option<Targets>,
        loss_scale: f32,
    ) -> Result<ChunkOutput, ChunkError> {
        if self.flights.contains_key(&microbatch) || self.owed.contains_key(&microbatch) {
            return Err(ChunkError::InFlight { microbatch });
        }
        self.check_targets(targets.as_ref())?;
        let module = self.module().clone();
        let (input, leaf) = match self.upload(input, &self.device)? {
            ModuleInput::Activation(activation) if !self.ends.first => {
                let leaf = activation.require_grad();
                (ModuleInput::Activation(leaf.clone()), Some(leaf))
            }
            input => (input, None),
        };
        let weight_pass = WeightPass::recording();
        let output = module.forward_split(input, &weight_pass)?;
        let (root, result) = match targets {
            Some(targets) => {
                let loss = self.loss(&module, output, targets, &self.device)?;
                let value: f32 = loss.clone().inner().into_scalar();
                (Root::Loss(loss.mul_scalar(loss_scale)), ChunkOutput::Loss(f64::from(value)))
            }
            None => {
                let activation = download(output.clone().inner());
                (Root::Output(output), ChunkOutput::Activation(activation))
            }
        };
        self.flights.insert(microbatch, Flight { module, input: leaf, root, weight_pass });
        Ok(result)
    }

    fn backward(
        &mut self,
        microbatch: MicrobatchId,
        gradient: Option<Activation>,
    ) -> Result<Option<Activation>, ChunkError> {
        let flight = self.land(microbatch, gradient.as_ref())?;
        flight.weight_pass.at_once();
        let (input_gradient, owed) = self.differentiate(flight, gradient);
        owed.add_to(&mut self.gradients);
        Ok(input_gradient)
    }

    fn backward_input(
        &mut self,
        microbatch: MicrobatchId,
        gradient: Option<Activation>,
    ) -> Result<Option<Activation>, ChunkError> {
        let flight = self.land(microbatch, gradient.as_ref())?;
        let (input_gradient, owed) = self.differentiate(flight, gradient);
        self.owed.insert(microbatch, owed);
        Ok(input_gradient)
    }

    fn backward_weight(&mut self, microbatch: MicrobatchId) -> Result<(), ChunkError> {
        let Some(owed) = self.owed.remove(&microbatch) else {
            return Err(match self.flights.contains_key(&microbatch) {
                true => ChunkError::NoInputPass { microbatch },
                false => ChunkError::NotInFlight { microbatch },
            });
        };
        owed.add_to(&mut self.gradients);
        Ok(())
    }

    fn discard(&mut self, microbatch: MicrobatchId) -> Result<(), ChunkError> {
        let flight = self.flights.remove(&microbatch).map(drop);
        let owed = self.owed.remove(&microbatch).map(drop);
        flight.or(owed).ok_or(ChunkError::NotInFlight { microbatch })
    }

    fn evaluate(
        &self,
        input: ChunkInput,
        targets: Option<Targets>,
    ) -> Result<ChunkOutput, ChunkError> {
        self.check_targets(targets.as_ref())?;
        let (module, device, output) = self.plain_output(input)?;
        let Some(targets) = targets else { return Ok(ChunkOutput::Activation(download(output))) };
        let loss: f32 = self.loss(&module, output, targets, &device)?.into_scalar();
        Ok(ChunkOutput::Loss(f64::from(loss)))
    }

    fn logits(&self, input: ChunkInput) -> Result<Activation, ChunkError> {
        self.plain_output(input).map(|(_, _, output)| download(output))
    }
}

fn download(tensor: Tensor<3>) -> Activation {
    let shape = tensor.dims();
    let data = tensor.into_data().try_into_vec().expect("chunks compute in f32");
    Activation { data, shape }
}

fn ids_tensor(
    what: &'static str,
    ids: Vec<u32>,
    shape: [usize; 2],
    device: &Device,
) -> Result<Tensor<2, Int>, ChunkError> {
    check_length(what, ids.len(), shape.iter().product())?;
    let ids: Vec<i64> = ids.into_iter().map(i64::from).collect();
    Ok(Tensor::from_data(TensorData::new(ids, shape), device))
}

fn check_length(what: &'static str, found: usize, wanted: usize) -> Result<(), ChunkError> {
    if found == wanted { Ok(()) } else { Err(ChunkError::Length { what, found, wanted }) }
}

fn check_ids(ids: &[u32], vocab: usize) -> Result<(), ChunkError> {
    match ids.iter().find(|&&id| id as usize >= vocab) {
        Some(&found) => Err(ChunkError::Token { found, vocab }),
        None => Ok(()),
    }
}

fn check_gradient(root: &Root, gradient: Option<&Activation>) -> Result<(), ChunkError> {
    match (root, gradient) {
        (Root::Loss(_), None) => Ok(()),
        (Root::Loss(_), Some(_)) => {
            Err(ChunkError::Gradient { found: "given", wanted: "not taken" })
        }
        (Root::Output(_), None) => Err(ChunkError::Gradient { found: "missing", wanted: "needed" }),
        (Root::Output(output), Some(gradient)) => {
            let (what, found, wanted) = ("the output gradient", gradient.shape, output.dims());
            if found != wanted {
                return Err(ChunkError::Shape { what, found, wanted });
            }
            check_length(what, gradient.data.len(), wanted.iter().product())
        }
    }
}
