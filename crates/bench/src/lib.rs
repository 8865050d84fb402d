//! The workbench behind `credenza bench`: the same measured work on every store.

pub mod report;
pub mod result;
