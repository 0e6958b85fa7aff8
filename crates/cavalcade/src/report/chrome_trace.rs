//! `trace.json`: the trace event format that Perfetto and Chrome open.
//!
//! Each device is a process twice over: once as predicted and once as measured, in two groups one
//! below the other; its lanes are the threads. Times are microseconds from the step's first start.
//! Source: Google's "Trace Event Format" (complete events, `ph: X`, and metadata, `ph: M`).

use cavalcade_cluster::Cluster;
use cavalcade_engine::Trace;
use cavalcade_schedule::{CheckedSchedule, Lane, Op};
use cavalcade_units::DeviceId;
use serde_json::{Value, json};

/// Process ids of the measured group begin here.
const MEASURED_PID: usize = 1000;

/// The trace of one step, predicted and (if it was run) measured.
pub fn chrome_trace(
    schedule: &CheckedSchedule,
    cluster: &Cluster,
    predicted: &Trace,
    measured: Option<&Trace>,
) -> Value {
    let mut events = Vec::new();
    group(schedule, cluster, "predicted", 1, predicted, &mut events);
    if let Some(measured) = measured {
        group(schedule, cluster, "measured", MEASURED_PID, measured, &mut events);
    }
    json!({ "displayTimeUnit": "ms", "traceEvents": events })
}

fn group(
    schedule: &CheckedSchedule,
    cluster: &Cluster,
    label: &str,
    first_pid: usize,
    trace: &Trace,
    events: &mut Vec<Value>,
) {
    let origin = trace.start();
    for (idx, device) in cluster.devices().iter().enumerate() {
        let id = DeviceId::from_idx(idx);
        let pid = first_pid + idx;
        let name = json!({ "name": format!("{label}: {}", device.name) });
        events.push(json!({ "ph": "M", "pid": pid, "name": "process_name", "args": name }));
        let order = json!({ "sort_index": pid });
        events.push(json!({ "ph": "M", "pid": pid, "name": "process_sort_index", "args": order }));
        for (tid, lane) in schedule.lanes(id).iter().enumerate() {
            let name = json!({ "name": lane_name(*lane, cluster) });
            events.push(json!({
                "ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": name,
            }));
        }
    }
    for (action, record) in trace.iter() {
        let device = schedule.device_of(action);
        let op = schedule.op_on(device, action);
        events.push(json!({
            "ph": "X",
            "pid": first_pid + device.idx(),
            "tid": schedule.lane_of(action).0,
            "name": op.to_string(),
            "cat": category(op),
            "ts": (record.start - origin).0 as f64 / 1e3,
            "dur": (record.end - record.start).0 as f64 / 1e3,
            "args": { "action": action.0 },
        }));
    }
}

fn lane_name(lane: Lane, cluster: &Cluster) -> String {
    let name = |device: DeviceId| &cluster.device(device).name;
    match lane {
        Lane::Compute => "compute".to_owned(),
        Lane::ToPeer(peer) => format!("to {}", name(peer)),
        Lane::FromPeer(peer) => format!("from {}", name(peer)),
        Lane::Group(group) => format!("group {group}"),
        Lane::ToServers(device) => format!("to the servers on {}", name(device)),
        Lane::FromServers(device) => format!("from the servers on {}", name(device)),
        Lane::ToHost => "to host".to_owned(),
        Lane::FromHost => "from host".to_owned(),
    }
}

fn category(op: Op) -> &'static str {
    match op {
        Op::Compute { pass, .. } => pass.word(),
        Op::Push(_) => "push",
        Op::Pull(_) => "pull",
        Op::Merge(_) => "merge",
        Op::Offload { .. } => "offload",
        Op::Prefetch { .. } => "prefetch",
        Op::Send(_) => "send",
        Op::Recv(_) => "receive",
        Op::Collective(_) => "collective",
        Op::OptimizerStep { .. } => "optimizer",
    }
}
