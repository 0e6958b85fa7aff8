//! What a network is made of: its layers, the names and shapes of its parameters, their initial
//! values and the work of a forward pass. No tensors, no devices.
//!
//! A [`Model`] is a row of [`Layer`]s. A pipeline cuts the row into chunks; everything that has to
//! be the same however it is cut (names, shapes, initial values, which weights are tied) is here.
//! Names and storage of a GPT follow GPT-2 as Hugging Face writes it, so that its files can be
//! read.
//!
//! ```text
//! layer   0           1 ..= L                L + 1
//!         embedding   blocks h.0 .. h.(L-1)  head: ln_f, lm_head
//!             \______________ wte, if tied ______/
//! ```
//!
//! A convolutional network has VGG's names and PyTorch's shapes. A family is a builder such as
//! `gpt.rs`, and its answers in `family.rs`.

mod config;
mod config_json;
mod conv;
mod conv_config;
mod conv_json;
mod error;
mod family;
mod family_json;
mod gpt;
mod init;
mod layer;
mod network;

pub use config::GptConfig;
pub use conv_config::ConvConfig;
pub use error::ModelError;
pub use family::Network;
pub use init::init_values;
pub use layer::{Init, Layer, ParamRef, ParamSpec, Tie};
pub use network::Model;
