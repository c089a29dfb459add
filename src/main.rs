//! The program `patterns`.
fn main() {}
