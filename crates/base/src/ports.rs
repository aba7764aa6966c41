//! Listening sockets of this network namespace, from the kernel's tables (proc_net(5)).

/// A table of sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketTable {
    /// TCP; only listening sockets count.
    Tcp,
    /// UDP.
    Udp,
    /// Raw IP.
    Raw,
    /// Frames of a device (packet(7)).
    Packet,
}

/// State of a listening TCP socket.
const LISTENS: &str = "0A";

impl SocketTable {
    fn files(self) -> &'static [&'static str] {
        match self {
            SocketTable::Tcp => &["/proc/self/net/tcp", "/proc/self/net/tcp6"],
            SocketTable::Udp => &["/proc/self/net/udp", "/proc/self/net/udp6"],
            SocketTable::Raw => &["/proc/self/net/raw", "/proc/self/net/raw6"],
            SocketTable::Packet => &["/proc/self/net/packet"],
        }
    }

    /// Returns true if a socket of this kind listens at the local `port`, or at any port for `None`. False if the
    /// kernel has no such table.
    pub fn has(self, port: Option<u16>) -> bool {
        let texts = self.files().iter().filter_map(|file| std::fs::read_to_string(file).ok());
        texts.into_iter().any(|text| self.holds(&text, port))
    }

    fn holds(self, text: &str, port: Option<u16>) -> bool {
        text.lines().skip(1).any(|line| {
            let fields: Vec<&str> = line.split_whitespace().take(4).collect();
            let local = fields.get(1).and_then(|local| local.rsplit_once(':'));
            let at = local.and_then(|(_, hex)| u16::from_str_radix(hex, 16).ok());
            let waits = self != SocketTable::Tcp || fields.get(3) == Some(&LISTENS);
            waits && port.is_none_or(|port| at == Some(port))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n   \
        0: 00000000:1451 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n   \
        1: 020012C6:1452 010012C6:8D1C 01 00000000:00000000 00:00000000 00000000\n";

    #[test]
    fn a_listening_port_is_told_from_a_connected_one() {
        assert!(SocketTable::Tcp.holds(TCP, Some(5201)) && SocketTable::Tcp.holds(TCP, None));
        assert!(!SocketTable::Tcp.holds(TCP, Some(5202)));
        assert!(SocketTable::Udp.holds(TCP, Some(5202)));
        assert!(!SocketTable::Udp.holds(TCP, Some(5203)));
        assert!(!SocketTable::Tcp.holds("", None));
        assert!(!SocketTable::Udp.holds("garbage\nmore garbage\n:\n", Some(0)));
    }

    #[test]
    fn a_port_counts_once_it_listens_and_for_its_own_protocol() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = Some(listener.local_addr().unwrap().port());
        assert!(SocketTable::Tcp.has(port) && !SocketTable::Udp.has(port));
        let from = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(!SocketTable::Tcp.has(Some(from.local_addr().unwrap().port())));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = Some(socket.local_addr().unwrap().port());
        assert!(SocketTable::Udp.has(port) && !SocketTable::Tcp.has(port));
    }
}
