//! The weight gradients of one micro-batch, put off to a pass of their own.
//!
//! A linear map `y = x W + b` needs two products in its backward pass: `dx = dy W^T`, for which the
//! chunk before waits, and `dW = x^T dy`, for which nobody does. Splitting them is the idea of
//! zero-bubble schedules (Qi et al., arXiv:2401.10241, section 2). Burn computes both at once, so
//! [`WeightPass::linear`] hides the weight from Burn's graph, keeps `x`, and taps the output:
//!
//! ```text
//!   forward         x --> linear(x, W hidden) --> tap --> y
//!                   `--> kept
//!   backward input  dx <------- dy W^T <---------- tap <-- dy
//!                                                  `--> kept
//!   backward weight dW += x^T dy,  db += sum of dy's rows
//! ```
//!
//! A backward pass in one piece computes the same products as soon as it reaches them, so that it
//! never keeps all of the `dy` at once. Both ways add them up in the same order.

use crate::layout::floats;
use crate::tap::{Tap, leaf_id, tapped};
use burn::Tensor;
use burn::backend::autodiff::NodeId;
use burn::tensor::TensorData;
use burn::tensor::module::linear;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// Collects, in a forward pass, what the weight gradients of its linear maps need.
#[derive(Debug)]
pub struct WeightPass {
    /// None if nothing is collected.
    record: Option<Arc<Record>>,
}

type Record = Mutex<Products>;

#[derive(Debug, Default)]
struct Products {
    /// Compute a product when the backward pass reaches it.
    at_once: bool,
    /// By the order of the forward pass; taken when the backward pass gets there.
    waiting: Vec<Option<Factor>>,
    /// By the order of the backward pass.
    reached: Vec<Product>,
}

/// One linear map, as the forward pass leaves it.
#[derive(Debug)]
struct Factor {
    weight: NodeId,
    bias: Option<NodeId>,
    /// The weight is `[out, in]`.
    is_table: bool,
    /// Its input `[B, T, in]`.
    x: Tensor<3>,
}

#[derive(Debug)]
enum Product {
    /// The factor, and the gradient of the output `[B, T, out]`.
    Due(Box<(Factor, Tensor<3>)>),
    Done(Vec<(NodeId, TensorData)>),
}

impl WeightPass {
    /// Puts nothing off: the maps are Burn's own. For a pass without gradients.
    pub fn none() -> Self {
        Self { record: None }
    }

    pub(crate) fn recording() -> Self {
        Self { record: Some(Arc::default()) }
    }

    /// `x @ weight + bias` of `x` `[batch, sequence, in]`, `weight` `[in, out]` and `bias` `[out]`.
    ///
    /// A weight that is not a parameter itself but computed from some gets its gradient from Burn,
    /// in the backward-input pass; so does such a bias.
    pub fn linear(&self, x: Tensor<3>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<3> {
        self.product(x, weight, bias, false)
    }

    /// The products of `x` `[batch, sequence, in]` with every row of `table` `[out, in]`, plus
    /// `bias` `[out]`: a head, or a linear map as PyTorch stores it.
    pub fn scores(&self, x: Tensor<3>, table: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<3> {
        self.product(x, table, bias, true)
    }

    fn product(
        &self,
        x: Tensor<3>,
        weight: Tensor<2>,
        bias: Option<Tensor<1>>,
        is_table: bool,
    ) -> Tensor<3> {
        let oriented = |weight: Tensor<2>| if is_table { weight.transpose() } else { weight };
        let record = self.record.as_ref().filter(|_| weight.is_require_grad());
        let Some(record) = record else { return linear(x, oriented(weight), bias) };
        let is_leaf = |bias: &Tensor<1>| bias.is_require_grad();
        let factor = Factor {
            weight: leaf_id(&weight),
            bias: bias.as_ref().filter(|bias| is_leaf(bias)).map(leaf_id),
            is_table,
            x: x.clone().inner(),
        };
        let hidden = weight.set_require_grad(false);
        let bias =
            bias.map(|bias| if is_leaf(&bias) { bias.set_require_grad(false) } else { bias });
        let mut products = lock(record);
        let tap = Place { record: Arc::downgrade(record), idx: products.waiting.len() };
        products.waiting.push(Some(factor));
        drop(products);
        tapped(linear(x, oriented(hidden), bias), Arc::new(tap))
    }

    /// Says, before the backward pass, that there is no second one: the products are due at once.
    pub(crate) fn at_once(&self) {
        if let Some(record) = &self.record {
            lock(record).at_once = true;
        }
    }

    /// After the backward pass: what it leaves to be added, beside `kept`, to the flat gradients.
    /// `slots` are the places of the parameters there.
    pub(crate) fn owed(
        self,
        kept: Vec<(Range<usize>, TensorData)>,
        slots: HashMap<NodeId, Range<usize>>,
    ) -> Owed {
        let products = self.record.map(|record| std::mem::take(&mut lock(&record).reached));
        Owed { kept, slots, products: products.unwrap_or_default() }
    }
}

fn lock(record: &Record) -> MutexGuard<'_, Products> {
    record.lock().expect("nothing that holds the lock panics")
}

/// A linear map's place in the record. It does not keep the record alive: a graph whose micro-batch
/// is discarded may outlive it.
#[derive(Debug)]
struct Place {
    record: Weak<Record>,
    idx: usize,
}

impl Tap for Place {
    fn reached(&self, gradient: Tensor<3>) {
        let Some(record) = self.record.upgrade() else { return };
        let mut products = lock(&record);
        let factor = products.waiting[self.idx].take().expect("a graph is consumed once");
        let at_once = products.at_once;
        drop(products);
        let mut product = Product::Due(Box::new((factor, gradient)));
        if at_once {
            product = Product::Done(product.gradients());
        }
        lock(&record).reached.push(product);
    }
}

impl Product {
    /// The gradients of the parameters, row-major.
    fn gradients(self) -> Vec<(NodeId, TensorData)> {
        let (factor, dy) = match self {
            Self::Due(due) => *due,
            Self::Done(gradients) => return gradients,
        };
        let Factor { weight, bias, is_table, x } = factor;
        let (x, dy) = (rows(x), rows(dy));
        let bias = bias.map(|bias| (bias, dy.clone().sum_dim(0).into_data()));
        let product = if is_table { dy.transpose().matmul(x) } else { x.transpose().matmul(dy) };
        [(weight, product.into_data())].into_iter().chain(bias).collect()
    }
}

/// `[B, T, W]` to `[B T, W]`.
fn rows(x: Tensor<3>) -> Tensor<2> {
    let [batch, sequence, width] = x.dims();
    x.reshape([batch * sequence, width])
}

/// What a micro-batch owes to the flat gradients after its backward-input pass.
#[derive(Debug)]
pub(crate) struct Owed {
    /// Gradients that Burn's pass computed.
    kept: Vec<(Range<usize>, TensorData)>,
    slots: HashMap<NodeId, Range<usize>>,
    products: Vec<Product>,
}

impl Owed {
    /// Adds all of it to `sums`, freeing each part once it is in.
    pub(crate) fn add_to(self, sums: &mut [f32]) {
        for (slot, gradient) in self.kept {
            add(&mut sums[slot], &gradient);
        }
        for product in self.products {
            for (leaf, gradient) in product.gradients() {
                // A leaf that is no parameter of the chunk has no place.
                if let Some(slot) = self.slots.get(&leaf) {
                    add(&mut sums[slot.clone()], &gradient);
                }
            }
        }
    }
}

fn add(sums: &mut [f32], gradient: &TensorData) {
    for (sum, value) in sums.iter_mut().zip(floats(gradient)) {
        *sum += value;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Owed, Product, WeightPass};
    use burn::Tensor;
    use burn::tensor::Device;
    use std::ops::Range;

    /// The places of gradients that are there, and of those whose products are still to be run.
    pub(crate) fn places(owed: &Owed) -> [Vec<Range<usize>>; 2] {
        let kept = owed.kept.iter().map(|(slot, _)| slot.clone()).collect();
        let mut due = Vec::new();
        for product in &owed.products {
            let Product::Due(product) = product else { panic!("{product:?} ran too early") };
            let leaves = [Some(product.0.weight), product.0.bias];
            due.extend(leaves.into_iter().flatten().map(|leaf| owed.slots[&leaf].clone()));
        }
        [kept, due]
    }

    #[test]
    fn a_product_waits_unless_there_is_no_second_half() {
        let device = Device::flex().autodiff();
        let leaf = |values: [[f32; 2]; 2]| Tensor::<2>::from_data(values, &device).require_grad();
        for at_once in [false, true] {
            let (x, weight) = (leaf([[1.0, 2.0], [3.0, 4.0]]), leaf([[5.0, 6.0], [7.0, 8.0]]));
            let pass = WeightPass::recording();
            let y = pass.linear(x.clone().unsqueeze(), weight.clone(), None);
            if at_once {
                pass.at_once();
            }
            let gradients = y.sum().backward();
            assert!(weight.grad(&gradients).is_none(), "the weight is hidden from Burn's graph");
            let dx: Vec<f32> = x.grad(&gradients).unwrap().into_data().try_into_vec().unwrap();
            assert_eq!(dx, [11.0, 15.0, 11.0, 15.0]);
            let owed = pass.owed(Vec::new(), [(super::leaf_id(&weight), 1..5)].into());
            assert_eq!(matches!(owed.products[..], [Product::Due(..)]), !at_once);
            let mut sums = [0.5; 6];
            owed.add_to(&mut sums);
            assert_eq!(sums, [0.5, 4.5, 4.5, 6.5, 6.5, 0.5]);
        }
    }
}
