//! Paths by name: kinds of access and routes, and networks of several hosts, each with the source of its values.
//!
//! A profile has the text of a link as typed, so that it can be read, copied and changed key by key. It is one
//! plausible link of its kind, not the average of all: for a particular link, measure it. Delays are half of a
//! round trip in each direction, since the sources give round trips.

/// Named link of a particular kind, or named network of several.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    /// Name of the profile.
    pub name: &'static str,
    /// Other names in common use; messages suggest this profile for them.
    pub known_as: &'static [&'static str],
    /// Keys of the link, or links of the network, as typed.
    pub text: &'static str,
    /// Summary of it, in one line.
    pub summary: &'static str,
    /// Source of the values, and which of them are a judgement.
    pub source: &'static str,
}

impl Profile {
    /// Returns true if it is a network, whose links name their hosts.
    pub fn is_network(&self) -> bool {
        self.text.contains("--")
    }
}

/// Every profile: links, then networks.
pub const ALL: &[Profile] = &[
    Profile {
        name: "dsl",
        known_as: &["adsl", "vdsl"],
        text: "delay=22ms,up.rate=1mbit,down.rate=16mbit,overhead=32B,up.queue=64kB,down.queue=256kB",
        summary: "ADSL2+ at home, with the deep upstream buffer of its time",
        source: "Round trip 44 ms: mean of DSL in FCC, Measuring Broadband America (2011). Upstream buffer 64 kB: \
                 a common size in Netalyzr (Kreibich et al., IMC 2010). Judgement: 16 and 1 Mbit/s, a usual \
                 offer within ITU-T G.992.5; 32 B for PPPoE, Ethernet and AAL5, while ATM's cells are not modelled; \
                 the downstream buffer.",
    },
    Profile {
        name: "cable",
        known_as: &["docsis"],
        text: "delay=14ms,up.jitter=2ms,up.rate=10mbit,down.rate=200mbit,overhead=18B,up.aqm=pie,up.target=10ms,\
               up.queue=256kB,down.queue=100ms",
        summary: "DOCSIS 3.1 at home, its modem with active queue management",
        source: "Round trip 28 ms: mean of cable in FCC, Measuring Broadband America (2011). Downstream near the \
                 mean advertised 194 Mbit/s of the FCC's eleventh report (2021). PIE with 10 ms in the modem: \
                 RFC 8034. 256 kB: a common size in Netalyzr (IMC 2010). Judgement: 10 Mbit/s up, 2 ms for the \
                 wait for a grant, the downstream buffer.",
    },
    Profile {
        name: "lte",
        known_as: &["4g", "4g-lte", "mobile"],
        text: "delay=25ms,jitter=5ms,jitter-shape=pareto,loss=0.1%,up.rate=7.6mbit,down.rate=29.5mbit,queue=1s",
        summary: "4G as phones find it, standing still, with the deep buffer of a base station",
        source: "29.5 and 7.6 Mbit/s: means of 4G in Ofcom, Mobile Matters 2023 (2022-10 to 2023-03). Round trip \
                 50 ms: Ofcom's means of 4G by city in 2014 were 49 to 60 ms; its 2024 report has 18 to 24 ms to \
                 the nearest servers. A deep queue: Winstein et al. (Sprout, NSDI 2013) saw several seconds. \
                 Judgement: 1 s, jitter, and 0.1 % loss, since the link repeats what it loses. The rate is \
                 steady here; a trace varies it.",
    },
    Profile {
        name: "5g",
        known_as: &["nr"],
        text: "delay=10ms,jitter=2ms,jitter-shape=pareto,loss=0.1%,up.rate=14.7mbit,down.rate=130mbit,queue=200ms",
        summary: "5G (non-standalone, below 6 GHz) as phones find it, standing still",
        source: "129.9 and 14.7 Mbit/s: means of 5G in Ofcom, Mobile Matters 2023. Round trip 20 ms: means by \
                 operator of 16.3 to 21.4 ms in Mobile Matters 2024. Judgement: jitter, loss, queue.",
    },
    Profile {
        name: "wifi-busy",
        known_as: &["wifi", "wlan"],
        text: "delay=8ms,jitter=8ms,jitter-shape=pareto,loss=0.5%,burst=4,rate=30mbit,queue=256pkt",
        summary: "the wireless hop alone, on a channel that many share",
        source: "Delay and its tail lie among those of Sui et al. (MobiSys 2016): half of a campus network's packets \
                 took up to 3 ms on the wireless hop, a tenth more than 20 ms, a hundredth more than 250 ms; this \
                 profile has 6, 14 (a tenth) and 37 ms (a hundredth). Judgement: rate, losses in bursts that \
                 survive the link's own repetitions, queue.",
    },
    Profile {
        name: "geo-satellite",
        known_as: &["geo", "satellite", "vsat"],
        text: "delay=300ms,up.rate=10mbit,down.rate=100mbit,queue=300ms",
        summary: "by way of a geostationary satellite, clear sky, no performance-enhancing proxy",
        source: "100 and 10 Mbit/s: the subscription that Michel et al. (IMC 2022) set beside Starlink. Round trip \
                 600 ms: the least that they give for such links; light alone takes 477 ms for four times 35 786 km. No \
                 loss: DVB-S2 is quasi error free (ETSI EN 302 307). Judgement: queue.",
    },
    Profile {
        name: "leo-satellite",
        known_as: &["leo"],
        text: "delay=25ms,jitter=5ms,jitter-shape=normal,loss=0.4%,burst=60ms,up.rate=17mbit,down.rate=178mbit,\
               queue=150ms",
        summary: "by way of satellites in low orbit, which change every 15 seconds",
        source: "Michel et al., A First Look at Starlink Performance (IMC 2022): median round trip 50 ms to European \
                 anchors (quartiles 40 and 60 ms), median 178 and 17 Mbit/s, 0.4 % of sparse messages lost. \
                 Judgement: that this loss is one burst in each 15 s interval between reconfigurations (Mohan et \
                 al., WWW 2024), thus 60 ms; jitter, queue.",
    },
    Profile {
        name: "transatlantic",
        known_as: &["intercontinental"],
        text: "delay=35ms,loss=0.01%",
        summary: "between New York and London, on a backbone that is not full",
        source: "Round trip about 70 ms; operators guarantee a monthly mean of 90 ms (Verizon, IP latency \
                 statistics), and the shortest cable takes 59 ms (Hibernia Express, 2015). Judgement: 0.01 % loss; no \
                 rate, as the ends limit it.",
    },
    Profile {
        name: "datacentre",
        known_as: &["datacenter", "dc"],
        text: "delay=100us,loss=0.005%,rate=10gbit,overhead=38B,queue=1MB",
        summary: "between two servers of one data centre",
        source: "Guo et al., Pingmesh (SIGCOMM 2015): median round trip 0.27 ms between pods, the hosts' share \
                 included, and 1 to 8 in 100 000 packets dropped. 38 B: Ethernet's header, check sequence, preamble and \
                 gap (IEEE 802.3). Judgement: 10 Gbit/s and the share of a switch's buffer.",
    },
    Profile {
        name: "kreylos-2020-home",
        known_as: &[],
        text: "delay=23.6ms,jitter=3.3ms,jitter-shape=normal,up.rate=5.35mbit,up.queue=2.9MB,up.loss=0.015%,\
               down.rate=87mbit",
        summary: "the home line of \"Is TCP really that slow?\" (O. Kreylos, 2020), to his university",
        source: "From the article's figures: ICMP round trip 47.273 ms, standard deviation 4.721 ms, shared evenly \
                 by the two directions. 5.35 Mbit/s and 2.9 MB solve his four uploads of 104 858 600 B together, as \
                 IP packets, timed at the sender: TCP in 158 s; datagrams in 2.3 s with 95.88 % lost, at 0.812 MiB/s \
                 with 20.93 %, at 1.181 MiB/s with 44.29 %. 0.015 % was lost below the rate. Download 10.03 MiB/s \
                 by TCP. Judgement: the downstream queue.",
    },
    Profile {
        name: "three-cities",
        known_as: &[],
        text: "hamburg--hamburg-isp:up.rate=10mbit,down.rate=200mbit,overhead=18B,up.queue=256kB,near=hamburg + \
               vancouver--vancouver-isp:up.rate=10mbit,down.rate=200mbit,overhead=18B,up.queue=256kB + \
               los-angeles--los-angeles-isp:up.rate=10mbit,down.rate=200mbit,overhead=18B,up.queue=256kB + \
               hamburg-isp--vancouver-isp:delay=80.05ms + hamburg-isp--los-angeles-isp:delay=73ms + \
               vancouver-isp--los-angeles-isp:delay=14.85ms + \
               los-angeles-isp--server:rate=1gbit,far=server,people=hamburg/vancouver/los-angeles",
        summary: "three people at home in Hamburg, Vancouver and Los Angeles, and a server at Los Angeles",
        source: "Round trips of 160.1, 146.0 and 29.7 ms between servers in these cities: medians over a day of the \
                 least of 30 pings each hour, 2020-07-19 and 20 (WonderProxy, A day in the life of the Internet; medians \
                 by GeoDec). Medians of the mean of 30 were 25 to 33 ms higher to and from Hamburg, whose server answered unevenly. \
                 Chosen: access with the rates, overhead and queues of `cable`, without a delay of its own, no \
                 limit between the providers, and where the server is. 1 Gbit/s: IEEE 802.3ab.",
    },
    Profile {
        name: "home-and-cloud",
        known_as: &[],
        text: "laptop--router:wifi-busy + desktop--router:rate=1gbit + router--cloud:cable",
        summary: "a laptop on Wi-Fi and a desktop on a cable behind one home's line, and a server",
        source: "Links with a profile: its sources. 1 Gbit/s: IEEE 802.3ab. Chosen: one laptop and one desktop.",
    },
    Profile {
        name: "office-wifi",
        known_as: &[],
        text: "laptop-1--channel + laptop-2--channel + laptop-3--channel + laptop-4--channel + \
               channel--switch:wifi-busy + switch--server:rate=1gbit,near=laptop-1,far=server",
        summary: "four laptops on one channel of Wi-Fi, and a server behind the access point",
        source: "The channel: the sources of `wifi-busy`. It is one link, as those who share it have one rate and queue \
                 together. 1 Gbit/s: IEEE 802.3ab. Chosen: four laptops; between them the channel has no effect.",
    },
    Profile {
        name: "starlink",
        known_as: &[],
        text: "home--dish:up.rate=17mbit,down.rate=178mbit,queue=150ms,near=home,reroute=35ms + \
               dish--satellite-1:delay=15ms,jitter=5ms,jitter-shape=normal,\
               down=12s-57s/72s-117s/132s-177s/192s-237s/252s-297s + satellite-1--internet + \
               dish--satellite-2:delay=40ms,jitter=5ms,jitter-shape=normal,\
               down=0s-12s/27s-72s/87s-132s/147s-192s/207s-252s/267s-297s + satellite-2--internet + \
               dish--satellite-3:delay=20ms,jitter=5ms,jitter-shape=normal,\
               down=0s-27s/42s-87s/102s-147s/162s-207s/222s-267s/282s-297s + satellite-3--internet + \
               dish--satellite-4:delay=30ms,jitter=5ms,jitter-shape=normal,\
               down=0s-42s/57s-102s/117s-162s/177s-222s/237s-282s + satellite-4--internet + \
               friend--internet:cable + internet--server,far=server",
        summary: "a home behind a dish of Starlink, whose satellite changes each 15 seconds for five minutes, a friend behind \
                  cable, and a server",
        source: "Changes at seconds 12, 27, 42 and 57 of each minute: Tanveer et al. (CoNEXT Companion 2023); here for five \
                 minutes. Round trips: the quartiles of Michel et al. (IMC 2022), and the largest step that Huston saw, 30 to \
                 80 ms (APNIC, May 2024). Rates: Michel et al. Judgement: 35 ms until hosts use the next satellite, so that \
                 61 ms are lost in 15 s, the 0.4 % of Michel et al.; jitter, queue. The friend: the sources of `cable`.",
    },
    Profile {
        name: "behind-two-nats",
        known_as: &[],
        text: "home--router + router--carrier:cable,nat=port-restricted + carrier--internet:nat=full-cone + \
               friend--friend-router + friend-router--internet:cable,nat=symmetric + \
               internet--server:rate=1gbit,near=home,far=server",
        summary: "a home behind its own NAT and its carrier's, a friend behind a symmetric one, and a server",
        source: "The carrier's NAT: RFC 6888, REQ-1 and REQ-7. The lines: the sources of `cable`. 1 Gbit/s: IEEE 802.3ab. \
                 Chosen: the NATs of the two homes, and who is there.",
    },
    Profile {
        name: "vr-cluster",
        known_as: &[],
        text: "master--switch:delay=1ms,rate=100mbit,queue=5ms + switch--node-1 + switch--node-2 + switch--node-3 + \
               switch--node-4 + switch--node-5 + switch--node-6 + switch--node-7 + switch--node-8,near=master,\
               receivers=node-1/node-2/node-3/node-4/node-5/node-6/node-7/node-8",
        summary: "the master of a cluster of displays, and eight nodes behind one trunk, for fanout:receivers=8",
        source: "The trunk of the study `vrui-cluster`: the bandwidth-delay product of a gigabit (IEEE 802.3ab) at a round \
                 trip of 0.2 ms, as 100 Mbit/s at 2 ms; the article has no figures. Chosen: eight nodes, and that their own \
                 links have no limit. Multicast, which crosses no router, needs the study's path of two hosts.",
    },
];

/// Returns the name of the profile that people also know as `typed`.
pub fn known_as(typed: &str) -> Option<&'static str> {
    let typed = typed.to_lowercase();
    ALL.iter()
        .find(|profile| profile.known_as.contains(&typed.as_str()))
        .map(|profile| profile.name)
}
