//! Format of echo requests and replies (RFC 792, RFC 4443) and their sockets.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use deadheat_datapath::datapath::checksum::{fold, sum};
use deadheat_datapath::datapath::option::set_words;

/// Length of type, code, checksum, identifier and sequence number, the same for both families.
pub(super) const HEADER: usize = 8;

/// Version of ICMP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// RFC 792.
    V4,
    /// RFC 4443.
    V6,
}

impl Family {
    pub(super) fn of(ip: IpAddr) -> Family {
        match ip {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }

    fn request(self) -> u8 {
        match self {
            Family::V4 => 8,
            Family::V6 => 128,
        }
    }

    fn reply(self) -> u8 {
        match self {
            Family::V4 => 0,
            Family::V6 => 129,
        }
    }
}

/// Kind of socket by which the kernel gives access to ICMP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Ping socket: the kernel sets identifier and checksum, and delivers only this socket's replies.
    Ping,
    /// Raw socket: this program sets all fields.
    Raw,
}

impl Access {
    pub(super) fn name(self) -> &'static str {
        match self {
            Access::Ping => "dgram",
            Access::Raw => "raw",
        }
    }

    pub(super) fn open(self, domain: Domain) -> io::Result<Socket> {
        let kind = match self {
            Access::Ping => Type::DGRAM,
            Access::Raw => Type::RAW,
        };
        let v6 = domain == Domain::IPV6;
        let protocol = if v6 { Protocol::ICMPV6 } else { Protocol::ICMPV4 };
        Socket::new(domain, kind, Some(protocol))
    }

    pub(super) fn remedy(self) -> &'static str {
        match self {
            Access::Ping => "`sysctl -w net.ipv4.ping_group_range=\"0 2147483647\"` allows it",
            Access::Raw => "it needs CAP_NET_RAW: root, or `setcap cap_net_raw+ep` on the program",
        }
    }
}

/// Format of requests and replies on one socket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Echo {
    /// Family of the addresses.
    pub(super) family: Family,
    /// Kind of the socket.
    pub(super) access: Access,
    /// Identifier of requests from raw sockets; ping sockets have one of the kernel's.
    pub(super) id: u16,
}

impl Echo {
    /// Writes the header in front of the payload in `request`.
    pub(super) fn address(&self, request: &mut [u8], seq: u16) {
        request[..HEADER].fill(0);
        request[0] = self.family.request();
        request[4..6].copy_from_slice(&self.id.to_be_bytes());
        request[6..8].copy_from_slice(&seq.to_be_bytes());
        // The kernel computes it for ping sockets, and for raw ICMPv6, whose checksum covers the addresses, too.
        if (self.family, self.access) == (Family::V4, Access::Raw) {
            let sum = checksum(request);
            request[2..4].copy_from_slice(&sum.to_be_bytes());
        }
    }

    /// Returns the payload if `bytes` are a reply to this socket's requests.
    pub(super) fn payload<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let start = match (self.family, self.access) {
            (Family::V4, Access::Raw) => usize::from(bytes.first()? & 0x0f) * 4,
            _ => 0,
        };
        let icmp = bytes.get(start..)?;
        let (header, payload) = icmp.split_at_checked(HEADER)?;
        let ours = match self.access {
            Access::Ping => true,
            Access::Raw => header[4..6] == self.id.to_be_bytes(),
        };
        (header[0] == self.family.reply() && header[1] == 0 && ours).then_some(payload)
    }

    /// Makes the kernel drop packets of a raw socket other than our replies: other types, and other programs' echoes.
    /// [`Echo::payload`] still checks each, as some may have arrived before.
    pub(super) fn keep_out_others(&self, socket: &Socket) -> io::Result<()> {
        if self.access == Access::Ping {
            return Ok(());
        }
        match self.family {
            Family::V4 => {
                let blocked = [!(1u32 << Family::V4.reply())];
                set_words(socket.as_fd(), libc::SOL_RAW, ICMP_FILTER, &blocked)?;
            }
            Family::V6 => {
                let reply = Family::V6.reply();
                let mut blocked = [u32::MAX; 8];
                blocked[usize::from(reply / 32)] &= !(1 << (reply % 32));
                set_words(socket.as_fd(), libc::IPPROTO_ICMPV6, ICMP6_FILTER, &blocked)?;
            }
        }
        socket.attach_filter(&self.program())
    }

    /// Returns a classic BPF program (Documentation/networking/filter.rst) that accepts packets with our identifier.
    /// Over IPv4 a raw socket's packets begin with the IP header, over IPv6 they do not.
    fn program(&self) -> Vec<SockFilter> {
        let op = |code: u32, jf: u8, k: u32| SockFilter::new(code as u16, 0, jf, k);
        let mut program = match self.family {
            Family::V4 => vec![
                op(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0, 0),
                op(libc::BPF_LD | libc::BPF_H | libc::BPF_IND, 0, 4),
            ],
            Family::V6 => vec![op(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 4)],
        };
        program.extend([
            op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, u32::from(self.id)),
            op(libc::BPF_RET | libc::BPF_K, 0, u32::MAX),
            op(libc::BPF_RET | libc::BPF_K, 0, 0),
        ]);
        program
    }
}

/// linux/icmp.h, raw(7).
const ICMP_FILTER: libc::c_int = 1;
/// linux/icmpv6.h, RFC 3542 section 3.2.
const ICMP6_FILTER: libc::c_int = 1;

/// Returns the Internet checksum of a message.
fn checksum(bytes: &[u8]) -> u16 {
    !fold(sum(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_rfc_1071() {
        // The example of section 3, whose sum is ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&bytes), !0xddf2);
        assert_eq!(checksum(&bytes[..7]), !(0xddf2 - 0x00f7));
        assert_eq!(checksum(&[]), 0xffff);
    }

    #[test]
    fn golden_request_and_what_counts_as_its_reply() {
        let raw = Echo { family: Family::V4, access: Access::Raw, id: 0x1234 };
        let mut request = *b"........\x01\x02\x03";
        raw.address(&mut request, 5);
        assert_eq!(request, *b"\x08\x00\xe1\xc4\x12\x34\x00\x05\x01\x02\x03");
        assert_eq!(checksum(&request), 0, "a right sum checks to zero");

        let mut packet = vec![0x46; 24];
        packet.extend(b"\x00\x00\x00\x00\x12\x34\x00\x05\x01\x02\x03");
        assert_eq!(raw.payload(&packet), Some(&[1, 2, 3][..]));
        for (at, value) in [(24, 8), (25, 1), (28, 0), (0, 0x4f)] {
            let mut other = packet.clone();
            other[at] = value;
            assert_eq!(raw.payload(&other), None, "byte {at} = {value}");
        }
        assert_eq!(raw.payload(&packet[..31]), None);
        assert_eq!(raw.payload(&[]), None);
    }
}
