//! The order of a virtual worker's devices, and the layers of each.
//!
//! A virtual worker is HetPipe's name for devices that form one pipeline (Park et al. 2020,
//! section on partitioning). Each stage's time counts what it computes and receives, each stage's
//! memory what its position keeps in flight, and the order is searched too: the first stage keeps
//! the most, so a device with much memory may belong there although another one is faster.
//!
//! Ours differs in that nothing is solved by an integer program: orders and cuts are found together
//! by dynamic programming over sets of devices, exactly, and the cut for the order that is chosen
//! by the same table as in [`partition`](crate::partition()).

use crate::Shares;
use crate::order::Orders;
use crate::partition::{PartitionError, cut};
use crate::stage::{Place, StageTimes};
use cavalcade_units::{Bytes, DeviceId, Nanos};
use std::cmp::Reverse;
use std::ops::Range;
use thiserror::Error;

/// What the layers of a model cost on the devices. Layers and stages are counted from 0.
#[derive(Clone, Copy)]
pub struct Costs<'a> {
    /// The layers.
    pub n_layers: u32,
    /// `time(device, layer)`: forward and backward of a micro-batch.
    pub time: &'a dyn Fn(DeviceId, u32) -> Nanos,
    /// `bytes(stage, n_stages, layers)`: the most memory that a stage uses if it holds those
    /// layers, with all the micro-batches that its position keeps in flight.
    pub bytes: &'a dyn Fn(usize, usize, Range<u32>) -> Bytes,
    /// `capacity(device)`: its memory, None for no limit.
    pub capacity: &'a dyn Fn(DeviceId) -> Option<Bytes>,
    /// `message(from, to, cut)`: the time in which a micro-batch's activation, or its gradient on
    /// the way back, goes over the cut before layer `cut`. Both are equally large.
    pub message: &'a dyn Fn(DeviceId, DeviceId, u32) -> Nanos,
}

/// A virtual worker's devices in the order of its stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrangement {
    /// The device of each stage.
    pub devices: Vec<DeviceId>,
    /// The layers of each stage.
    pub layers: Vec<Range<u32>>,
    /// The times of the slowest stage and of all stages, with what they receive.
    pub cost: Shares,
}

/// Devices that cannot be arranged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArrangeError {
    /// No order has a cut that fits.
    #[error(
        "no order of the devices fits; in the order {}, those with the most memory first, {source}",
        names(devices)
    )]
    NoneFits {
        /// The devices, those with the most memory first.
        devices: Vec<DeviceId>,
        /// Why that order does not fit.
        source: PartitionError,
    },
    /// The table of orders would be too large.
    #[error(
        "{n_devices} devices of {n_classes} classes with {n_layers} layers have more orders than \
         can be searched (10 devices of 10 classes with 150 layers are about the most); use fewer \
         devices in a pipeline, or give their order"
    )]
    TooManyOrders {
        /// The devices.
        n_devices: usize,
        /// Their classes.
        n_classes: usize,
        /// The layers.
        n_layers: u32,
    },
}

/// The best order of `devices` as stages of one pipeline, and the best cut of the layers.
///
/// Devices of the same `class` are alike: equal in time, memory, and messages to and from any
/// other. With unlike links a class is a type of device in one place. Alike devices keep the
/// order in which they are given.
///
/// The slowest stage is as fast as it can be within the memory. Of the orders and cuts that reach
/// that, those with the least sum of all stages' times are taken; of those, the order with the
/// class of the first stage as early as possible in `devices`, then the second, and so on; of its
/// cuts the one that [`partition`](crate::partition()) would take.
///
/// Time: for n unlike devices about 2^n * n^3 * layers^2 / 16 steps; less for alike ones.
///
/// # Errors
/// No order has a cut that fits, or there are too many orders.
///
/// # Panics
/// If there is no device.
pub fn arrange(
    devices: &[DeviceId],
    class: &dyn Fn(DeviceId) -> u32,
    costs: &Costs<'_>,
) -> Result<Arrangement, ArrangeError> {
    assert!(!devices.is_empty(), "there is a device to hold the layers");
    let n_stages = devices.len();
    let members = classes(devices, class);
    let none_fits = |devices, source| ArrangeError::NoneFits { devices, source };
    let times = stage_times(&members, n_stages, costs);
    let counts: Vec<usize> = members.iter().map(Vec::len).collect();
    let too_many = || ArrangeError::TooManyOrders {
        n_devices: n_stages,
        n_classes: members.len(),
        n_layers: costs.n_layers,
    };
    let orders = Orders::new(&times, &counts).ok_or_else(too_many)?;
    // One order to begin with: its slowest stage is a bound, or it says what is lacking.
    let first = Order::new(roomiest(&members, costs), &members, &times, costs);
    let known = first.cut().map(|layers| first.slowest(&layers));
    if let Err(source @ PartitionError::TooFewLayers { .. }) = known {
        return Err(none_fits(first.devices, source));
    }
    let Some(best) = orders.best(known.as_ref().ok().copied()) else {
        let source = known.expect_err("an order that fits is one of all orders");
        return Err(none_fits(first.devices, source));
    };
    let order = Order::new(best.classes, &members, &times, costs);
    let layers = order.cut().expect("the order was found with a cut that fits");
    let cost = Shares { slowest: best.slowest, fill: best.sum };
    Ok(Arrangement { devices: order.devices, layers, cost })
}

/// One order of the devices.
struct Order<'a> {
    classes: Vec<usize>,
    devices: Vec<DeviceId>,
    times: &'a StageTimes,
    costs: &'a Costs<'a>,
}

impl<'a> Order<'a> {
    fn new(
        classes: Vec<usize>,
        members: &[Vec<DeviceId>],
        times: &'a StageTimes,
        costs: &'a Costs<'a>,
    ) -> Self {
        let mut left: Vec<_> = members.iter().map(|members| members.iter().copied()).collect();
        let device = |&class: &usize| left[class].next().expect("an order has what there is");
        let devices = classes.iter().map(device).collect();
        Self { classes, devices, times, costs }
    }

    fn time(&self, stage: usize, layers: Range<usize>) -> Option<Nanos> {
        let class = |stage: usize| self.classes.get(stage).copied();
        let (before, after) = (stage.checked_sub(1).and_then(class), class(stage + 1));
        self.times.time(Place { stage, before, own: self.classes[stage], after }, layers)
    }

    fn cut(&self) -> Result<Vec<Range<u32>>, PartitionError> {
        let Costs { bytes, capacity, n_layers, .. } = *self.costs;
        let bytes = |stage, layers| bytes(stage, self.devices.len(), layers);
        let capacity: Vec<_> = self.devices.iter().map(|&device| capacity(device)).collect();
        cut(&|stage, layers| self.time(stage, layers), &bytes, &capacity, n_layers)
    }

    fn slowest(&self, cuts: &[Range<u32>]) -> Nanos {
        let time = |(stage, layers): (usize, &Range<u32>)| {
            self.time(stage, layers.start as usize..layers.end as usize)
        };
        let slowest = cuts.iter().enumerate().map(time).max().flatten();
        slowest.expect("a cut has stages, and those fit")
    }
}

/// The devices by class; classes in the order in which `devices` has them first.
pub(crate) fn classes(devices: &[DeviceId], class: &dyn Fn(DeviceId) -> u32) -> Vec<Vec<DeviceId>> {
    let mut members: Vec<Vec<DeviceId>> = Vec::new();
    for &device in devices {
        match members.iter_mut().find(|members| class(members[0]) == class(device)) {
            Some(members) => members.push(device),
            None => members.push(vec![device]),
        }
    }
    members
}

fn stage_times(members: &[Vec<DeviceId>], n_stages: usize, costs: &Costs<'_>) -> StageTimes {
    let time = |class: usize, layer| (costs.time)(members[class][0], layer);
    let bytes = |stage, layers| (costs.bytes)(stage, n_stages, layers);
    let capacity: Vec<_> = members.iter().map(|members| (costs.capacity)(members[0])).collect();
    let message = |from: usize, to: usize, cut| {
        let from_device = members[from][0];
        let other = members[to].iter().find(|&&device| device != from_device);
        other.map_or(Nanos::ZERO, |&to| (costs.message)(from_device, to, cut))
    };
    StageTimes::new(&time, &bytes, &capacity, n_stages, costs.n_layers).with_messages(&message)
}

/// The class of each stage with the devices that have the most memory first.
fn roomiest(members: &[Vec<DeviceId>], costs: &Costs<'_>) -> Vec<usize> {
    let each = members.iter().enumerate();
    let mut order: Vec<usize> =
        each.flat_map(|(class, members)| members.iter().map(move |_| class)).collect();
    let room = |class: usize| (costs.capacity)(members[class][0]).map_or(u64::MAX, |bytes| bytes.0);
    order.sort_by_key(|&class| Reverse(room(class)));
    order
}

fn names(devices: &[DeviceId]) -> String {
    devices.iter().map(DeviceId::to_string).collect::<Vec<_>>().join(", ")
}
