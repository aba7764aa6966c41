//! Sets environment variables with the versions of the libraries that are transports, as results name them.

use std::path::PathBuf;
use std::{env, fs, io};

/// Libraries that implement contenders.
const PROTOCOLS: &[&str] = &[
    "kcp",
    "laminar",
    "noq-proto",
    "quiche",
    "quinn-proto",
    "renet",
    "rustls",
    "rusty_enet",
    "s2n-quic",
    "sctp-proto",
    "str0m",
    "tungstenite",
    "web-transport-proto",
];

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    let lock = variable("CARGO_MANIFEST_DIR")?.join("../../Cargo.lock");
    println!("cargo:rerun-if-changed={}", lock.display());
    let lock = fs::read_to_string(lock).unwrap_or_default();
    for name in PROTOCOLS {
        let version = locked(&lock, name).unwrap_or("of unknown version");
        let key = name.replace('-', "_").to_uppercase();
        println!("cargo:rustc-env=DEADHEAT_{key}={name} {version}");
    }
    Ok(())
}

/// Returns the version of a package in Cargo.lock.
fn locked<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
    after.split('"').next()
}

fn variable(name: &str) -> io::Result<PathBuf> {
    let missing = || io::Error::other(format!("cargo does not set {name}"));
    env::var_os(name).map(PathBuf::from).ok_or_else(missing)
}
