//! Names the functions of `crates/bench/src/driver/syscalls.rs` to the linker, so that this program
//! exports them, too.

const EXPORTED: &[&str] = &include!("../bench/src/driver/exported.in");

fn main() {
    println!("cargo:rerun-if-changed=../bench/src/driver/exported.in");
    for name in EXPORTED {
        println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic-symbol={name}");
    }
}
