//! The `credenza` program.

fn main() {}
