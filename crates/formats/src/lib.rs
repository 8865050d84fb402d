//! Text dump formats of key-value stores, as streams of records.
