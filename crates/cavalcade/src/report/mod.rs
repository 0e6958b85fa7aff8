//! What a run leaves behind: one module a file format, and the pictures of a step.

mod chrome_trace;
mod metrics;
mod simulated;
mod summary;
mod timeline;

pub use chrome_trace::chrome_trace;
pub use metrics::StepMetrics;
pub use simulated::simulation_json;
pub use summary::{RankSummary, Summary};
pub use timeline::timeline;
