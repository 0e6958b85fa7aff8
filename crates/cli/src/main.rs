//! The binary `cavalcade`.
fn main() {}
