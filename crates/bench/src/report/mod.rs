//! What a run becomes for its reader.

pub mod compare;
pub mod json;
pub mod stats;
pub mod terminal;
pub mod text;
