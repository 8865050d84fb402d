//! The workbench behind `credenza bench`.
