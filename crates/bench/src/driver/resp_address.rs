//! Where a server that speaks RESP is: what follows `resp:` in the name of a store.
//!
//! `redis://HOST:PORT/DB`, `unix:///SOCKET?db=N` or `cluster://HOST:PORT,HOST:PORT`, each with `?flush=yes`
//! where what is in the database may be deleted. No password is taken here, as names of stores are in
//! reports and in the list of processes: it comes from the environment.

use credenza::{Error, Result};
use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

/// The environment variable with the password; `redis-cli` has the same.
pub(super) const PASSWORD: &str = "REDISCLI_AUTH";

/// How an address may be written.
pub(super) const FORMS: &str = "resp:redis://HOST:PORT/DB, resp:unix:///SOCKET?db=N or \
                                resp:cluster://HOST:PORT,HOST:PORT, with ?flush=yes where what is in the \
                                database may be deleted";

/// What the name of a cluster's store begins with.
pub(crate) const CLUSTER: &str = "resp:cluster://";

/// Refuses what is no address.
pub(crate) fn check(text: &str) -> Result<()> {
    Address::parse(text, None).map(drop)
}

/// A server, or some of the nodes of a cluster.
pub(super) struct Address {
    pub(super) nodes: Vec<ConnectionInfo>,
    pub(super) is_cluster: bool,
    /// Whether what is in the database may be deleted.
    pub(super) may_flush: bool,
}

impl Address {
    /// Takes an address apart; `password` is for all nodes.
    pub(super) fn parse(text: &str, password: Option<&str>) -> Result<Address> {
        let refused = |why: &str| {
            Error::invalid(format!("the server's address is not understood: {why}; it is {FORMS}"))
        };
        let (place, parameters) = text.split_once('?').unwrap_or((text, ""));
        let (mut may_flush, mut others) = (false, Vec::new());
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("flush", "yes")) => may_flush = true,
                Some(("db" | "user", _)) => others.push(parameter),
                Some(("pass", _)) => return Err(password_in_name()),
                _ => return Err(refused(&format!("there is no '{parameter}'"))),
            }
        }
        let others =
            if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        let cluster = place.strip_prefix("cluster://");
        let urls: Vec<String> = match cluster {
            Some(nodes) if nodes.contains('/') => {
                return Err(refused("a cluster has no databases"));
            }
            Some(nodes) => nodes.split(',').map(|node| format!("redis://{node}{others}")).collect(),
            None => vec![format!("{place}{others}")],
        };
        let node = |url: &String| {
            let info = url.as_str().into_connection_info();
            // The address is not repeated: there may be a password in it.
            let info = info.map_err(|_| refused("no server is named there"))?;
            let mut settings = info.redis_settings().clone();
            if settings.password().is_some() {
                return Err(password_in_name());
            }
            if let Some(password) = password {
                settings = settings.set_password(password);
            }
            // Without it the last part of a long request waits for what the server says to the first.
            let tcp = TcpSettings::default().set_nodelay(true);
            Ok(info.set_redis_settings(settings).set_tcp_settings(tcp))
        };
        let nodes = urls.iter().map(node).collect::<Result<Vec<_>>>()?;
        Ok(Address { nodes, is_cluster: cluster.is_some(), may_flush })
    }

    /// How the server is reached, in words.
    pub(super) fn way(&self) -> &'static str {
        match self.nodes.first().map(ConnectionInfo::addr) {
            Some(ConnectionAddr::Unix(_)) => "a unix socket",
            _ => "TCP",
        }
    }
}

fn password_in_name() -> Error {
    Error::invalid(format!(
        "a password in the name of a store would be in the report and in the list of processes: take it \
         out, and set the environment variable {PASSWORD}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Address {
        Address::parse(text, Some("secret")).unwrap()
    }

    #[test]
    fn an_address_is_a_server_or_nodes_of_a_cluster() {
        let one = parsed("redis://user@host:7/5?flush=yes");
        let settings = one.nodes[0].redis_settings();
        assert_eq!(one.nodes[0].addr(), &ConnectionAddr::Tcp("host".to_owned(), 7));
        assert_eq!((settings.db(), settings.username()), (5, Some("user")));
        assert_eq!(settings.password(), Some("secret"));
        assert!(one.may_flush && !one.is_cluster && one.way() == "TCP");

        let socket = parsed("unix:///run/a.sock?db=3");
        assert_eq!(socket.nodes[0].addr(), &ConnectionAddr::Unix("/run/a.sock".into()));
        assert_eq!((socket.nodes[0].redis_settings().db(), socket.way()), (3, "a unix socket"));
        assert!(!socket.may_flush);

        let cluster = parsed("cluster://a:1,[::1]:2?flush=yes");
        let nodes: Vec<String> = cluster.nodes.iter().map(|n| n.addr().to_string()).collect();
        assert!(cluster.is_cluster && cluster.may_flush && nodes.len() == 2, "{nodes:?}");
        assert_eq!(nodes[0], "a:1");
    }

    #[test]
    fn what_is_no_address_is_refused_in_words() {
        for (text, why) in [
            ("", "resp:unix:///SOCKET"),
            ("host:6379", "resp:redis://HOST:PORT/DB"),
            ("foo", "not understood: no server is named there; it is resp:redis://HOST:PORT/DB"),
            ("redis://:word@host:x/0", "no server is named there"),
            ("http://host:6379", "resp:redis://HOST:PORT/DB"),
            ("redis://host:6379/x", "resp:redis://HOST:PORT/DB"),
            ("rediss://host:6379/0", "not understood"),
            ("redis://host:6379/0?flush=no", "there is no 'flush=no'"),
            ("redis://host:6379/0?timeout=5", "there is no 'timeout=5'"),
            ("redis://host:6379/0?protocol=resp3", "there is no 'protocol=resp3'"),
            ("cluster://a:1/3", "a cluster has no databases"),
            ("cluster://", "not understood"),
            ("redis://:word@host:6379/0", PASSWORD),
            ("unix:///a.sock?pass=word", PASSWORD),
        ] {
            let said = Address::parse(text, None).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(said.contains(why) && !said.contains("word@"), "{text}: {said}");
        }
    }
}
