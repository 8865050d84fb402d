//! Names the functions of `src/driver/syscalls.rs` to the linker, so that the programs export them.

const EXPORTED: &[&str] = &include!("src/driver/exported.in");

fn main() {
    println!("cargo:rerun-if-changed=src/driver/exported.in");
    for name in EXPORTED {
        println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic-symbol={name}");
    }
}
