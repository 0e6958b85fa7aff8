//! All transports through one suite: traffic, loss, authentication, links, collectives, control.

#![expect(clippy::unwrap_used, reason = "the rig is test code too")]

mod auth;
mod collectives;
mod control;
mod links;
mod loss;
mod rig;
mod traffic;
