//! A simulated plan as JSON.

use crate::simulation::Simulation;
use serde_json::{Value, json};

/// What was found. Times are milliseconds, sizes bytes, shares fractions of 1.
pub fn simulation_json(simulation: &Simulation) -> Value {
    let prediction = &simulation.prediction;
    let devices = simulation.working().map(|device| {
        let used = prediction.devices[device.idx()];
        json!({
            "device": simulation.name(device),
            "stands_for": simulation.alike[device.idx()].len(),
            "busy": used.busy.as_millis_f64(),
            "idle": used.idle.as_millis_f64(),
            "exposed": used.exposed.as_millis_f64(),
            "peak_bytes": prediction.peak_bytes[device.idx()].0,
            "memory_bytes": simulation.cluster.device(device).memory.map(|memory| memory.0),
        })
    });
    let shares = simulation.critical_shares();
    let part = |(what, share): &(String, f64)| json!({ "what": what, "share": share });
    let busiest = simulation
        .busiest_link()
        .map(|(link, busy, bytes)| json!({ "link": link, "busy": busy, "bytes": bytes.0 }));
    json!({
        "version": 1,
        "schedule": simulation.plan.schedule().to_string(),
        "n_devices": simulation.n_devices(),
        "time_unit": "ms",
        "step": prediction.step_time.as_millis_f64(),
        "tokens_per_second": simulation.tokens_per_second(),
        "mfu": simulation.utilization(),
        "bubble_fraction": prediction.bubble_fraction,
        "exposed_fraction": simulation.exposed_fraction(),
        "busiest_link": busiest,
        "limited_by": shares.first().map(part),
        "critical_path": shares.iter().map(part).collect::<Vec<_>>(),
        "devices": devices.collect::<Vec<_>>(),
    })
}
