//! What a run becomes for its reader.

pub mod json;
pub mod stats;
