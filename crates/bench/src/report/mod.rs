//! What a run becomes for its reader: the contract file, a table in the terminal, a page.
//!
//! Reading order: [`stats`] says what may be concluded from a few rounds, [`compare`] who is
//! compared with whom; [`json`], [`terminal`] and [`html`] show the same conclusions. `work` says what was
//! asked of the stores, `noise` how far chance goes, [`durability`] who brings what to the disk, `effort` the
//! same with faults and files as a table, `processor` and `own_counters` what the processor and the stores
//! themselves counted; `together`, `rate`, `over_time` and `growth` what comes of several readers, of operations
//! at a rate, in the course of a run, and of more records; `committers` and `mix_latencies` what those do that
//! change one store; `stores` how each was set up; [`saved`] puts two saved runs against each other.

mod chart;
mod check;
mod closing;
mod committers;
pub mod compare;
pub mod csv;
mod curves;
pub mod durability;
mod effort;
mod facts;
mod figures;
mod growth;
pub mod html;
pub mod json;
mod lines;
mod mix_latencies;
mod noise;
pub(crate) mod outputs;
mod over_time;
mod overview;
mod own_cost;
mod own_counters;
pub(crate) mod pen;
pub(crate) mod plain;
mod processor;
mod rate;
pub mod saved;
pub mod stats;
pub(crate) mod stores;
pub mod terminal;
pub(crate) mod text;
mod together;
mod work;

pub use html::write as write_html;
pub use json::{read as read_json, write as write_json};
pub use pen::Pen;
pub use terminal::print as print_terminal;
