//! Symmetric replicas: pipelines that do the same on like devices, of which one is simulated for
//! all.

use cavalcade_cluster::{Cluster, Device, Route};
use cavalcade_plan::{Pipeline, Plan};
use cavalcade_schedule::Form;
use cavalcade_units::DeviceId;
use std::collections::{BTreeMap, BTreeSet};

/// A plan of which one replica is left, to be lowered with [`Folded::copies`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folded {
    /// The first replica: a pipeline, or two where the schedule pairs them.
    pub plan: Plan,
    /// How many more there are.
    pub copies: u32,
    /// By device of the cluster, all that do what it does, itself first; only itself if it is none
    /// of the plan that is left.
    pub alike: Vec<Vec<DeviceId>>,
}

impl Folded {
    /// `plan` as it is.
    pub fn whole(plan: &Plan, cluster: &Cluster) -> Self {
        let ids = (0..cluster.devices().len()).map(DeviceId::from_idx);
        Self { plan: plan.clone(), copies: 0, alike: ids.map(|id| vec![id]).collect() }
    }

    /// What `plan` folds to: itself if its replicas differ, or share what they send over.
    pub fn new(plan: &Plan, cluster: &Cluster) -> Self {
        let unit = if plan.schedule().form() == Form::Mirrored { 2 } else { 1 };
        let replicas: Vec<&[Pipeline]> = plan.pipelines().chunks(unit).collect();
        let devices: Vec<Vec<DeviceId>> = replicas.iter().map(|replica| devices(replica)).collect();
        let first = (replicas[0], &devices[0][..]);
        let is_like = |other: (&[Pipeline], &[DeviceId])| {
            works_alike(first, other, cluster) && sends_alike(first.1, other.1, cluster)
        };
        let others = || replicas.iter().copied().zip(devices.iter().map(Vec::as_slice)).skip(1);
        let whole = Self::whole(plan, cluster);
        let is_whole = plan.pipelines().len().is_multiple_of(unit);
        let exchanges_waves = plan.waves().is_some();
        if exchanges_waves || !is_whole || !others().all(is_like) || shares(&devices, cluster) {
            return whole;
        }
        let mut alike = whole.alike;
        for (_, other) in others() {
            for (&own, &like) in first.1.iter().zip(other) {
                if !alike[own.idx()].contains(&like) {
                    alike[own.idx()].push(like);
                }
            }
        }
        let copies = u32::try_from(replicas.len() - 1).expect("a plan has fewer pipelines");
        Self { plan: plan.with_pipelines(replicas[0].to_vec()), copies, alike }
    }
}

/// The devices of a replica, stage after stage.
fn devices(replica: &[Pipeline]) -> Vec<DeviceId> {
    replica.iter().flat_map(Pipeline::stages).map(|stage| stage.device()).collect()
}

type Replica<'a> = (&'a [Pipeline], &'a [DeviceId]);

/// Whether two replicas give the same work to equal devices.
fn works_alike(one: Replica<'_>, other: Replica<'_>, cluster: &Cluster) -> bool {
    let shape = |pipeline: &Pipeline| {
        let layers: Vec<_> = pipeline.stages().iter().map(|stage| stage.layers()).collect();
        (layers, pipeline.microbatches())
    };
    let nameless = |&device: &DeviceId| {
        let device = cluster.device(device).clone();
        Device { name: String::new(), node: None, site: None, ..device }
    };
    one.0.iter().map(shape).eq(other.0.iter().map(shape))
        && one.1.iter().map(nameless).eq(other.1.iter().map(nameless))
}

/// Whether the ways between the devices of two replicas are as long and as wide, and share ports
/// among each other in the same places.
fn sends_alike(one: &[DeviceId], other: &[DeviceId], cluster: &Cluster) -> bool {
    let mut twin_of: BTreeMap<usize, usize> = BTreeMap::new();
    let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
    let width = |leg: usize| cluster.resources()[leg].bandwidth;
    let mut is_twin = |(&own, &like): (&usize, &usize)| {
        *twin_of.entry(own).or_insert(like) == like
            && *seen.entry(like).or_insert(own) == own
            && width(own) == width(like)
    };
    let mut is_same = |a: Option<Route>, b: Option<Route>| match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            (a.latency, a.bandwidth, a.legs.len()) == (b.latency, b.bandwidth, b.legs.len())
                && a.legs.iter().zip(&b.legs).all(&mut is_twin)
        }
        _ => false,
    };
    // A device may have several stages.
    let twins: BTreeSet<(DeviceId, DeviceId)> =
        one.iter().copied().zip(other.iter().copied()).collect();
    let mut pairs = twins.iter().flat_map(|a| twins.iter().map(move |b| (a, b)));
    pairs.all(|(&(from, from_like), &(to, to_like))| {
        (from == to) == (from_like == to_like)
            && (from == to || is_same(cluster.route(from, to), cluster.route(from_like, to_like)))
    })
}

/// Whether two replicas use one device, or send over one port.
fn shares(replicas: &[Vec<DeviceId>], cluster: &Cluster) -> bool {
    let mut user_of_device = BTreeMap::new();
    let mut user_of_leg = BTreeMap::new();
    replicas.iter().enumerate().any(|(user, devices)| {
        let neighbors =
            devices.windows(2).flat_map(|pair| [(pair[0], pair[1]), (pair[1], pair[0])]);
        let legs = neighbors.filter_map(|(from, to)| cluster.route(from, to));
        let mut legs = legs.flat_map(|route| route.legs);
        devices.iter().any(|&device| *user_of_device.entry(device).or_insert(user) != user)
            || legs.any(|leg| *user_of_leg.entry(leg).or_insert(user) != user)
    })
}
