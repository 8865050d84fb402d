//! upscaledb's own server: another process, which has an environment that clients of the library change.
//!
//! The store is named by what the library is to open, `ups://HOST:PORT/PATH`. The library is that of the
//! store `upscaledb`, built with its remote part; every call is a message there and one back.
//!
//! Invariant: nothing of others is ever deleted. The workbench makes a database of its own in the
//! environment, [`DATABASE`], and is refused where there is one. The file at a store's path says that it did
//! (the claim): only then the database is taken away.

#![allow(unsafe_code)]

use super::upscaledb::{CODECS, Upscaledb};
use super::upscaledb_abi::{AUTO_CLEANUP, DATABASE_NOT_FOUND, NOT_IMPLEMENTED, Parameter};
use super::upscaledb_keys::TYPES_OF_SERVERS;
use super::upscaledb_store::{DATABASE, UpsStore};
use super::{Changes, Driver, Identity, Reading, Shape, Sharing, Source, c_path, refused};
use crate::measure::Size;
use crate::settings::{Name, Takes, Values};
use crate::workload::KeyType;
use credenza::{Error, Result};
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

/// How the name of a server is written.
const FORM: &str = "ups://HOST:PORT/PATH, as the server says where its environment is";

/// Refuses what is no address; `text` is what follows `ups:` in the name.
pub(super) fn check(text: &str) -> Result<()> {
    let place = text.strip_prefix("//").and_then(|rest| rest.split_once('/'));
    let host =
        place.filter(|(_, path)| !path.is_empty()).and_then(|(host, _)| host.rsplit_once(':'));
    match host {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(()),
        _ => Err(Error::invalid(format!("the server's address is not understood: it is {FORM}"))),
    }
}

pub(super) struct UpscaledbServer {
    library: Upscaledb,
    url: PathBuf,
}

impl UpscaledbServer {
    /// A client whose environment is open, and no database of it.
    fn client(&self, shape: &Shape) -> Result<UpsStore<'_>> {
        let (api, name) = (&self.library.api, c_path(&self.url)?);
        let mut store = UpsStore::new(api, shape);
        let none = [Parameter { name: 0, value: 0 }];
        // SAFETY: a place for the pointer, a C string, and a list with its end.
        let rc = unsafe { (api.ups_env_open)(&raw mut store.env, name.as_ptr(), 0, none.as_ptr()) };
        if rc == NOT_IMPLEMENTED {
            let why = "this library was built without its remote part, which its configure has as \
                       --enable-remote";
            return Err(refused("ups_env_open", why).at(&self.url));
        }
        api.check("ups_env_open", rc).map_err(|e| e.at(&self.url))?;
        Ok(store)
    }

    /// Opens the database in such a client: what the library says.
    fn open_database(&self, store: &mut UpsStore<'_>) -> c_int {
        let none = [Parameter { name: 0, value: 0 }];
        // SAFETY: the environment is open; a place for the pointer, and a list with its end.
        unsafe {
            let (db, list) = (&raw mut store.db, none.as_ptr());
            (self.library.api.ups_env_open_db)(store.env, db, DATABASE, 0, list)
        }
    }
}

impl Driver for UpscaledbServer {
    const NAME: &'static str = "ups";
    const NATIVE_GET_MANY: bool = true;
    const HAS_DUPLICATES: bool = true;
    const KEY_TYPES: &'static [KeyType] = TYPES_OF_SERVERS;
    const VALUE_TYPES: &'static [KeyType] = &KeyType::OF_VALUES;
    const SHARING: Sharing = Sharing::Alone;
    const SOURCE: Option<Source> = Upscaledb::SOURCE;
    const VERSIONS: &'static [&'static str] = Upscaledb::VERSIONS;
    const IS_SERVER: bool = true;
    /// Those of a database; the others are of the environment, which is the server's.
    const SETTINGS: &'static [Takes] = &[
        (Name::Compression, Values::Codecs(CODECS)),
        (Name::KeyCompression, Values::Codecs(CODECS)),
        (Name::Cursors, Values::Either),
    ];
    const CHANGES: Changes = Changes::Memory;
    const SYNCS: &'static str = "by the server, where nobody counts";

    fn load(address: Option<&Path>) -> Result<UpscaledbServer> {
        let text = address.and_then(Path::to_str);
        let text = text.ok_or_else(|| Error::invalid(format!("name a server: {FORM}")))?;
        check(text)?;
        let library = Upscaledb::load(None)?;
        Ok(UpscaledbServer { library, url: PathBuf::from(format!("{}:{text}", Self::NAME)) })
    }

    fn identity(&self) -> Identity {
        self.library.identity()
    }

    fn tuning(&self, shape: &Shape) -> String {
        format!("one message each, and one back; {}", UpsStore::told(shape))
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "a server of upscaledb, reached over TCP: another process, whose memory, processor, calls and \
             files are not in the figures; what is safe of its changes is up to who started it"
                .to_owned(),
        ]
    }

    fn admit(&self) -> Result<()> {
        let mut store = self.client(&Shape::of_nothing())?;
        match self.open_database(&mut store) {
            DATABASE_NOT_FOUND => Ok(()),
            0 => Err(Error::invalid(format!(
                "the environment has a database {DATABASE} already, which is not touched: have the server \
                 serve another environment"
            ))
            .at(&self.url)),
            rc => self.library.api.check("ups_env_open_db", rc),
        }
    }

    fn clear<'k>(&self, path: &Path, _: impl Iterator<Item = &'k [u8]>) -> Result<()> {
        if !path.exists() {
            return Ok(());
        }
        let (api, mut store) = (&self.library.api, self.client(&Shape::of_nothing())?);
        // A client that died has left it open in the server, which does not erase such: opened here, it can
        // be closed.
        match self.open_database(&mut store) {
            DATABASE_NOT_FOUND => return Ok(()),
            rc => api.check("ups_env_open_db", rc)?,
        }
        let db = std::mem::replace(&mut store.db, null_mut());
        // SAFETY: the database is open, and was taken out of the store: closed once.
        api.check("ups_db_close", unsafe { (api.ups_db_close)(db, AUTO_CLEANUP) })?;
        // SAFETY: the environment is open, and the database is not.
        api.check("ups_env_erase_db", unsafe { (api.ups_env_erase_db)(store.env, DATABASE, 0) })
    }

    /// It is where the server is.
    fn size(&self, _: &Path) -> Result<Size> {
        Ok(Size { allocated: 0, length: 0 })
    }

    type Store<'d> = UpsStore<'d>;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<UpsStore<'_>> {
        if !path.exists() {
            return Err(Error::invalid("nothing was stored in this server").at(path));
        }
        let mut store = self.client(shape)?;
        let rc = self.open_database(&mut store);
        self.library.api.check("ups_env_open_db", rc)?;
        store.open_cursor()?;
        Ok(store)
    }

    type Writer<'d> = UpsStore<'d>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<UpsStore<'_>> {
        let mut store = self.client(shape)?;
        store.make_database(shape)?;
        std::fs::write(path, b"").map_err(|e| Error::io("write", e).at(path))?;
        store.open_cursor()?;
        Ok(store)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_server_is_what_the_library_opens() {
        let name = "ups://127.0.0.1:8085/env.db";
        assert_eq!(crate::driver::address_of(name), Some("//127.0.0.1:8085/env.db"));
        crate::driver::check_address(name).unwrap();
        let said = crate::driver::check_address("ups:127.0.0.1:8085").unwrap_err().to_string();
        assert!(said.contains("not understood"), "{said}");
        assert_eq!(crate::driver::address_of("upscaledb"), None);
        // Nobody listens there: a library with its remote part says so, and one without it that it has none.
        match UpscaledbServer::load(Some(Path::new("//127.0.0.1:1/env.db"))) {
            Ok(server) => {
                let said = server.admit().unwrap_err().to_string();
                assert!(said.contains("ups_env_open: "), "{said}");
            }
            Err(e) => eprintln!("not tested: {e}"),
        }
    }

    #[test]
    fn an_address_has_a_host_a_port_and_a_path() {
        for text in ["//127.0.0.1:8085/env.db", "//[::1]:1/a/b"] {
            check(text).unwrap();
        }
        for text in ["", "//", "//host/env.db", "//host:8085", "//host:8085/", "//:1/a", "host:1/a"]
        {
            let said = check(text).unwrap_err().to_string();
            assert!(said.contains("ups://HOST:PORT/PATH"), "{text}: {said}");
        }
        let said = check("//host:70000/a").unwrap_err().to_string();
        assert!(said.contains("not understood"), "{said}");
    }
}
