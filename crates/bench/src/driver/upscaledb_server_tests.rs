//! Danger: the driver of upscaledb's server misreads what comes over the wire, or takes away what is not its own.
//! The server is one of this process: its library, which a build with the remote part has beside the client's,
//! serves an environment. Without it this is passed over, and said so.

#![allow(unsafe_code)]

use super::duplicates_tests::several;
use super::key_types_tests::changed;
use super::library::api;
use super::tests::{fixed, records};
use super::upscaledb::Upscaledb;
use super::upscaledb_abi::{AUTO_CLEANUP, Env, Parameter};
use super::upscaledb_server::UpscaledbServer;
use super::*;
use crate::settings::Choices;
use crate::workload::Place;
use libloading::os::unix::Library;
use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr::{null, null_mut};

/// `ups_srv_config_t` of `ups/upscaledb_srv.h`.
#[repr(C)]
struct Config {
    port: u16,
    bind_addr: *const c_char,
    access_log_path: *const c_char,
    error_log_path: *const c_char,
}

api! {
    struct Api {
        ups_srv_init: unsafe extern "C" fn(*mut Config, *mut *mut c_void) -> c_int,
        ups_srv_add_env: unsafe extern "C" fn(*mut c_void, *mut Env, *const c_char) -> c_int,
        ups_srv_close: unsafe extern "C" fn(*mut c_void),
    }
}

/// A server with an environment, until it is dropped.
struct Server {
    api: Api,
    library: Upscaledb,
    env: *mut Env,
    server: *mut c_void,
    address: PathBuf,
    /// The file of the environment, which goes last.
    _folder: tempfile::TempDir,
}

impl Server {
    /// `None` where there is no such library.
    fn start() -> Option<Server> {
        let library = Upscaledb::load(None).map_err(|e| eprintln!("not tested: ups: {e}")).ok()?;
        let file = library.identity().file?;
        let beside = file.with_file_name("libupsserver.so.0");
        if !beside.exists() {
            eprintln!("not tested: ups: there is no {}", beside.display());
            return None;
        }
        // The server's calls of the client's library are found among what everybody may use.
        let how = libc::RTLD_NOW | libc::RTLD_GLOBAL | libc::RTLD_NODELETE;
        // SAFETY: both are libraries that the user named or installed, and may run.
        let (_, serving) =
            unsafe { (Library::open(Some(&file), how), Library::open(Some(&beside), how)) };
        let api = Api::load(serving.unwrap().into()).unwrap();
        let (mut env, mut server) = (null_mut(), null_mut());
        let none = [Parameter { name: 0, value: 0 }];
        let folder = tempfile::tempdir().unwrap();
        let file = c_path(&folder.path().join("env")).unwrap();
        // SAFETY: a place for the pointer, a C string, and a list with its end.
        let rc = unsafe {
            (library.api.ups_env_create)(&raw mut env, file.as_ptr(), 0, 0o600, none.as_ptr())
        };
        library.api.check("ups_env_create", rc).unwrap();
        let port = free_port();
        let mut config = Config {
            port,
            bind_addr: c"127.0.0.1".as_ptr(),
            access_log_path: null(),
            error_log_path: null(),
        };
        // SAFETY: the configuration is only read, and there is a place for the pointer; the environment
        // is open, and the name a C string.
        unsafe {
            library
                .api
                .check("ups_srv_init", (api.ups_srv_init)(&raw mut config, &raw mut server))
                .unwrap();
            library
                .api
                .check("ups_srv_add_env", (api.ups_srv_add_env)(server, env, c"/env".as_ptr()))
                .unwrap();
        }
        let address = PathBuf::from(format!("//127.0.0.1:{port}/env"));
        Some(Server { api, library, env, server, address, _folder: folder })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: both are open, and closed once; no client is left.
        unsafe {
            (self.api.ups_srv_close)(self.server);
            (self.library.api.ups_env_close)(self.env, AUTO_CLEANUP);
        }
    }
}

/// A port that nobody listened at just now.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_server_gives_back_what_it_was_given_and_loses_nothing_of_others() {
    let Some(server) = Server::start() else { return };
    let driver = UpscaledbServer::load(Some(&server.address)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let claim = folder.path().join("claim");
    std::fs::write(&claim, b"").unwrap();
    let cleared = || {
        let said = driver.admit().unwrap_err().to_string();
        assert!(said.contains("has a database 1 already"), "{said}");
        driver.clear(&folder.path().join("nobody's"), std::iter::empty()).unwrap();
        assert!(driver.admit().is_err(), "it was taken away without a claim");
        driver.clear(&claim, std::iter::empty()).unwrap();
        driver.admit().unwrap();
    };
    driver.admit().unwrap();
    let all = [records().first(300).unwrap(), fixed(4, 8), fixed(12, 40)];
    for setting in ["cursors=off", "cursors=on", "compression=zlib", "key-compression=snappy"] {
        // Where keys are numbers the library has no such compression.
        for records in all.iter().take(if setting.starts_with("key") { 1 } else { all.len() }) {
            given_back(&driver, records, setting);
            cleared();
        }
    }
    for place in [Place::First, Place::Last] {
        several(&driver, place);
        cleared();
    }
}

fn given_back<D: Driver>(driver: &D, records: &Records, setting: &str) {
    let mut choices = Choices::default();
    choices.set(setting).unwrap();
    let shape = Shape { settings: choices.of(D::NAME), ..Shape::of(records) };
    changed(driver, records, &shape, D::create, setting);
}
