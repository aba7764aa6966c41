//! Tests of accepted paths, of refused paths and their messages, and that text and network are equivalent.

use super::*;
use crate::nat::{Dependence, Middlebox};
use crate::network::{
    Backend, Discipline, Ecn, GilbertElliott, Grouping, Impairments, Jitter, Limit, Loss, LossPer,
    Nic, Order, Outages, Queue, Rate, ReleaseWait, Reorder, Shape,
};
use crate::trace::Content;
use crate::{PathSpec, profile, routes};
use deadheat_base::rng::SplitMix64;
use deadheat_base::time::Nanos;
use deadheat_base::units::BitRate;

const MS: u64 = 1_000_000;

/// Reads the files that tests name.
fn shelf(file: &str) -> Result<Vec<u8>> {
    let text = match file {
        "lte.up" => "1\n2\n2\n5\n",
        "ours.trace" => "deadheat-trace 1\n0s 20mbit 25ms 0%\n5s 5mbit 40ms 2%\nend 10s\n",
        "half.trace" => "deadheat-trace 1\n0s 20mbit\n5s 5mbit 40ms\nend 10s\n",
        "slow.trace" => "deadheat-trace 1\n0s 1bit\nend 10s\n",
        "lost.list" => "# lost in the run of yesterday\n5\n6\n\n40-42\n",
        "zero.list" => "5\n0\n",
        "offsets" => "-1\n0.25\n\n0.75\n",
        "words" => "-100\n1e2\n",
        "lopsided" => "0\n1\n2\n",
        _ => {
            let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(Error::setup(format!("read {file}"), gone));
        }
    };
    Ok(text.into())
}

fn read(typed: &str) -> Result<Network> {
    Network::parse_with(typed, &mut shelf)
}

fn up(typed: &str) -> Impairments {
    read(typed).unwrap().links.remove(0).up
}

fn down(typed: &str) -> Impairments {
    read(typed).unwrap().links.remove(0).down
}

fn refused(typed: &str, words: &[&str]) {
    let said = match read(typed) {
        Ok(network) => panic!("`{typed}` is taken, as {network}"),
        Err(error) => {
            assert!(matches!(error, Error::Usage(_) | Error::Data { .. }), "{typed}: {error:?}");
            error.to_string()
        }
    };
    for word in words {
        assert!(said.contains(word), "`{typed}` is refused without `{word}`: {said}");
    }
}

#[test]
fn a_key_holds_both_ways_unless_it_says_which() {
    let link = &read("delay=25ms,up.rate=1mbit,down.rate=20mbit,down.delay=30ms").unwrap().links[0];
    assert_eq!(link.up.delay, Nanos(25 * MS));
    assert_eq!(link.down.delay, Nanos(30 * MS));
    assert_eq!(link.up.rate, Rate::Fixed(BitRate(1_000_000)));
    assert_eq!(link.down.rate, Rate::Fixed(BitRate(20_000_000)));
    assert_eq!(up("delay=0"), Impairments::default());
}

#[test]
fn links_are_joined_by_a_plus_and_share_what_holds_for_the_path() {
    for typed in
        ["delay=5ms,seed=7+delay=40ms,mtu=9000", " delay=5ms, seed=7 + delay=40ms , mtu=9000 "]
    {
        let network = read(typed).unwrap();
        let delays: Vec<u64> = network.links.iter().map(|link| link.up.delay.0 / MS).collect();
        assert_eq!(delays, [5, 40]);
        assert_eq!((network.seed, network.mtu()), (Some(7), 9000));
    }
    let network = read("delay=1ms,backend=packet,wait=spin,mode=aggregate").unwrap();
    assert_eq!(network.backend, Some(Backend::Packet));
    assert_eq!(network.wait, ReleaseWait::Spin);
    assert_eq!(network.grouping, Some(Grouping::Aggregate));
    let plain = read("delay=1ms").unwrap();
    assert_eq!((plain.backend, plain.grouping, plain.seed, plain.mtu()), (None, None, None, 1500));
    assert_eq!(plain.wait, ReleaseWait::Hybrid);
}

#[test]
fn each_loss_has_its_model() {
    assert_eq!(up("loss=0%").loss, Loss::None);
    assert_eq!(up("loss=1%").loss, Loss::Bernoulli(0.01));
    let chain = |p, r, bad, good| Loss::GilbertElliott(GilbertElliott { p, r, bad, good });
    assert_eq!(up("ge=1%/25%/90%/0.1%").loss, chain(0.01, 0.25, 0.9, 0.001));
    assert_eq!(up("ge=1%/25%").loss, chain(0.01, 0.25, 1.0, 0.0));
    let Loss::GilbertElliott(of) = up("loss=1%,burst=4").loss else { panic!("no chain") };
    assert_eq!((of.r, of.bad, of.good), (0.25, 1.0, 0.0));
    assert!((of.p / (of.p + of.r) - 0.01).abs() < 1e-15, "the share is that asked for");
    let of_time = Outages { good: Nanos(1_980 * MS), bad: Nanos(20 * MS) };
    assert_eq!(up("loss=1%,burst=20ms").loss, Loss::Outages(of_time));
    assert_eq!(up("drop=5/6/40-42").loss, Loss::List([5, 6, 40, 41, 42].into()));
    assert_eq!(up("drop=@lost.list").loss, Loss::List([5, 6, 40, 41, 42].into()));
    assert_eq!(up("drop=every:100").loss, Loss::Every(100));
}

#[test]
fn a_firewall_blocks_protocols_from_a_time_on() {
    let blocks = |typed: &str| crate::block::Block::parse_all(typed).unwrap();
    assert_eq!(up("block=udp").block, blocks("udp"));
    assert_eq!(down("delay=1ms,block=udp@3s/icmp").block, blocks("udp@3s/icmp"));
    let one_way = read("up.block=sctp@250ms").unwrap();
    assert_eq!((one_way.links[0].down.block.len(), one_way.links[0].up.block.len()), (0, 1));
    assert_eq!(one_way.to_string(), "up.block=sctp@250ms");
    refused("block=upd", &["did you mean `udp`?"]);
    refused("block=udp@soon", &["`soon`"]);
    refused("block=", &["lacks its value", "PROTOCOL"]);
    refused("block=udp/", &["icmp", "udplite"]);
    let simulated = |typed: &str| PathSpec::parse(&format!("sim:{typed}"));
    assert!(simulated("delay=1ms,block=udp@3s").is_ok());
    let said = simulated("delay=1ms,block=tcp").unwrap_err().to_string();
    assert!(said.contains("all packets are of UDP"), "{said}");
}

#[test]
fn a_link_and_a_host_are_down_at_times() {
    let times = |typed: &str| crate::down::DownTimes::parse(typed).unwrap();
    assert_eq!(up("down=10s-13s/20s-21s").down, times("10s-13s/20s-21s"));
    assert!(up("down.down=10s-13s").down.is_empty());
    refused("down=13s-10s", &["ends before it begins", "10s-13s"]);
    refused("down=10s", &["10s-13s"]);
    let network =
        read("a--r:down=1s-2s + r--b + r--c,host-down=a@2s-3s/5s-6s/b@9s-10s,reroute=1s").unwrap();
    let text = "a--r:down=1s-3s/5s-6s,reroute=1s + r--b:down=9s-10s + r--c";
    assert_eq!(network.to_string(), text);
    assert_eq!(read(text).unwrap(), network);
    assert_eq!(read("delay=1ms,host-down=far@1s-2s").unwrap().to_string(), "delay=1ms,down=1s-2s");
    refused("a--r + r--b,host-down=x@1s-2s", &["unknown host `x`"]);
    refused("a--r + r--b,host-down=1s-2s", &["names no host", "vancouver@10s-13s"]);
    refused("a--r + r--b,reroute=1s", &["no effect", "no link goes down"]);
    refused("down=1s-2s,reroute=1s", &["no effect", "no way around"]);
    let simulated = PathSpec::parse("sim:a--r:down=1s-2s + r--b,reroute=1s");
    assert!(simulated.is_ok(), "{simulated:?}");
}

#[test]
fn a_link_with_names_has_an_mtu_of_its_own() {
    let mtus = |typed: &str| -> Vec<u16> {
        read(typed).unwrap().links.iter().map(|link| link.mtu).collect()
    };
    assert_eq!(mtus("a--r:mtu=9000 + r--s:delay=1ms,mtu=1280 + s--b"), [9000, 1280, 1500]);
    assert_eq!(mtus("delay=1ms + delay=2ms,mtu=1400"), [1400, 1400]);
    let network = read("a--r + r--b:mtu=1280,seed=3").unwrap();
    assert_eq!(
        (network.mtu(), network.to_string().as_str()),
        (1280, "a--r:seed=3 + r--b:mtu=1280")
    );
    assert_eq!(read(&network.to_string()).unwrap(), network);
    refused("a--r + r--b:mtu=500", &["outside", "576"]);
    let simulated = PathSpec::parse("sim:a--r:mtu=1400 + r--b").unwrap_err().to_string();
    assert!(simulated.contains("no devices"), "{simulated}");
}

#[test]
fn rate_queue_and_discipline() {
    assert_eq!(up("rate=20mbit").queue, Queue::default());
    let queue = |typed: &str| up(&format!("rate=20mbit,{typed}")).queue;
    assert_eq!(queue("queue=64kB").limit, Limit::Bytes(64_000));
    assert_eq!(queue("queue=100pkt").limit, Limit::Packets(100));
    assert_eq!(queue("queue=50ms").limit, Limit::Time(Nanos(50 * MS)));
    let (target, interval) = (Nanos(5 * MS), Nanos(100 * MS));
    assert_eq!(queue("aqm=codel").discipline, Discipline::Codel { target, interval });
    assert_eq!(queue("aqm=fq-codel").discipline, Discipline::FqCodel { target, interval });
    assert_eq!(queue("aqm=pie").discipline, Discipline::Pie { target: Nanos(15 * MS) });
    assert_eq!(
        queue("aqm=codel,target=1ms,interval=20ms,ecn=on"),
        Queue {
            limit: Limit::Time(Nanos(100 * MS)),
            discipline: Discipline::Codel { target: Nanos(MS), interval: Nanos(20 * MS) },
            ecn: Ecn::Marks,
        }
    );
    assert_eq!(up("rate=20mbit,overhead=38B").overhead, 38);
}

#[test]
fn a_card_is_usual_of_a_rate_or_none() {
    let rate = |typed: &str| up(typed).nic_rate().map(|rate| rate.0 / 1_000_000);
    assert_eq!(rate("delay=1ms"), Some(10_000));
    assert_eq!(rate("rate=20mbit"), Some(10_000));
    assert_eq!(rate("rate=10gbit"), Some(20_000));
    assert_eq!(rate("rate=40gbit,nic=1gbit"), Some(1_000));
    assert_eq!(rate("nic=none"), None);
    assert_eq!(down("up.nic=1gbit").nic, Nic::Usual);
    assert_eq!(
        read("up.nic=1gbit,down.nic=none").unwrap().to_string(),
        "up.nic=1gbit,down.nic=none"
    );
    refused("nic=10", &["`nic=10`", "10bit"]);
    refused("nic=off", &["none"]);
    refused("nic=1bit", &["between 1kbit and 1000gbit"]);
    let simulated = |typed: &str| PathSpec::parse(&format!("sim:{typed}"));
    assert!(simulated("delay=1ms,nic=1gbit").is_ok());
    let said = simulated("delay=1ms,nic=none").unwrap_err().to_string();
    assert!(said.contains("without end") && said.contains("give a rate"), "{said}");
}

#[test]
fn jitter_and_the_other_accidents() {
    let jitter = |typed: &str| up(&format!("delay=10ms,jitter=2ms{typed}")).jitter.unwrap();
    let plain = Jitter { scale: Nanos(2 * MS), shape: Shape::Uniform, order: Order::Kept };
    assert_eq!(jitter(""), plain);
    assert_eq!(jitter(",jitter-shape=pareto").shape, Shape::Pareto);
    assert_eq!(jitter(",jitter-shape=normal,order=free").order, Order::Free);
    // The word for both, which takes the place of a profile's jitter.
    let free = up("delay=10ms,jitter=2ms,order=free").jitter;
    assert_eq!(up("delay=10ms,reordering-jitter=2ms").jitter, free);
    assert_eq!(up("lte,reordering-jitter=1ms").jitter.unwrap().order, Order::Free);
    let table = Shape::Table([-1.0, 0.25, 0.75].into());
    assert_eq!(jitter(",jitter-shape=offsets").shape, table);
    assert_eq!(jitter(",jitter-shape=0.75/-1/0.25").shape, table);
    assert_eq!(up("delay=10ms,jitter=0ms").jitter, None);
    assert!(up("delay=1ms,jitter=2ms,jitter-shape=normal,order=free").jitter.is_some());

    let way = up("duplicate=1%,corrupt=0.1%,reorder=2%");
    assert_eq!((way.duplicate, way.corrupt), (0.01, 0.001));
    let usual = Reorder { share: 0.02, depth: 3, patience: Nanos(50 * MS) };
    assert_eq!(way.reorder, Some(usual));
    let own = up("reorder=2%,reorder-depth=7,reorder-patience=1s").reorder.unwrap();
    assert_eq!((own.depth, own.patience), (7, Nanos(1_000 * MS)));
}

#[test]
fn a_trace_takes_the_place_of_a_rate() {
    let way = up("trace=ours.trace,queue=64kB");
    let Rate::Trace(trace) = &way.rate else { panic!("no trace") };
    assert_eq!((trace.file.as_str(), trace.length), ("ours.trace", Nanos(10_000 * MS)));
    assert_eq!(way.overhead, 0);
    // mahimahi counts 4 bytes of its device with each packet.
    assert_eq!(up("trace=lte.up").overhead, 4);
    assert_eq!(up("trace=lte.up,overhead=0").overhead, 0);
    let Rate::Trace(burst) = up("trace=lte.up,trace-mode=burst").rate else { panic!("no trace") };
    assert!(matches!(burst.content, Content::Opportunities { bytes: 1504, .. }));
    // The same file is the same trace in both directions, read once.
    let mut reads = 0;
    let network = Network::parse_with("trace=lte.up + trace=lte.up,delay=3ms", &mut |file| {
        reads += 1;
        shelf(file)
    });
    assert_eq!((network.unwrap().links.len(), reads), (2, 1));
}

#[test]
fn what_is_typed_takes_precedence_over_a_profile_and_a_direction_over_both() {
    let of = profile::ALL.iter().find(|p| p.text.contains("up.rate") && p.text.contains("loss="));
    let of = of.expect("a profile with a rate for each way, and loss").name;
    assert_eq!(up(&format!("{of},rate=3mbit")).rate, Rate::Fixed(BitRate(3_000_000)));
    assert_eq!(down(&format!("{of},rate=3mbit")).rate, Rate::Fixed(BitRate(3_000_000)));
    assert_eq!(down(&format!("{of},up.rate=3mbit")).rate, down(of).rate);
    assert_eq!(up(&format!("{of},loss=0%")).loss, Loss::None);
    let other = format!("{of},ge=1%/50%");
    assert!(matches!(up(&other).loss, Loss::GilbertElliott(_)), "another model of loss");
    assert!(matches!(up(&format!("{of},trace=lte.up")).rate, Rate::Trace(_)));
    let mixed = "loss=1%,up.ge=1%/50%";
    assert!(matches!(up(mixed).loss, Loss::GilbertElliott(_)));
    assert_eq!(down(mixed).loss, Loss::Bernoulli(0.01));
}

#[test]
fn a_path_by_another_name_is_pointed_to_and_not_to_one_that_only_looks_alike() {
    refused("4g", &["unknown path `4g`", "here it is called `lte`"]);
    refused("LEO,loss=1%", &["`leo-satellite`"]);
    refused("starlink,loss=1%", &["keys that follow a whole network"]);
    refused("cabel", &["did you mean `cable`"]);
    for profile in profile::ALL {
        let taken = |name: &&'static str| profile::ALL.iter().any(|other| other.name == *name);
        assert!(!profile.known_as.iter().any(taken), "{}", profile.name);
    }
}

#[test]
fn impossible_values_are_refused() {
    refused("delay=-5ms", &["`delay=-5ms`", "negative"]);
    refused("loss=-1%", &["negative"]);
    refused("rate=-1mbit", &["negative"]);
    refused("queue=-1pkt,rate=1mbit", &["negative"]);
    refused("delay=61m", &["outside", "3600s"]);
    refused("loss=120%", &["between 0% and 100%"]);
    refused("loss=100%", &["nothing would arrive", "drop="]);
    refused("corrupt=100%", &["none accepted"]);
    refused("reorder=100%", &["none to overtake"]);
    refused("loss=1", &["percent sign"]);
    refused("loss=0.00000000001%", &["one packet in 10^12"]);
    refused("ge=0.00000000001%/1%", &["one packet in 10^12"]);
    refused("rate=20mbit,queue=0pkt", &["queue of zero", "1pkt"]);
    refused("rate=20mbit,queue=0B", &["queue of zero"]);
    refused("rate=20mbit,queue=0ms", &["queue of zero"]);
    refused("rate=20mbit,queue=100", &["no unit", "100pkt"]);
    refused("rate=20mbit,queue=much", &["100pkt"]);
    refused("rate=20mbit,queue=1kB", &["does not hold one packet of 1500 B"]);
    refused("rate=20mbit,queue=20000000pkt", &["at most 10000000pkt"]);
    refused("rate=3bit", &["less than one packet of 1500 B an hour", "at least 4bit"]);
    refused("trace=slow.trace", &["mean rate", "an hour"]);
    refused("rate=0bit", &["outside"]);
    refused("rate=20mbit,overhead=2kB", &["outside", "1500B"]);
    refused("drop=0", &["counted from 1"]);
    refused("drop=3-1", &["backwards", "1-3"]);
    refused("drop=5/5", &["once, in increasing order"]);
    refused("drop=1-99999999", &["more than 1000000"]);
}

#[test]
fn a_list_may_name_the_last_number_there_is() {
    assert_eq!(up("drop=18446744073709551615").loss, Loss::List([u64::MAX].into()));
}

#[test]
fn contradictions_are_refused() {
    refused("rate=1mbit,trace=ours.trace", &["exclude each other"]);
    refused("loss=1%,ge=1%/50%", &["exclude each other"]);
    refused("loss=1%,drop=5", &["exclude each other"]);
    refused("ge=1%/50%,drop=5", &["exclude each other"]);
    refused("burst=4,ge=1%/50%", &["exclude each other"]);
    refused("up.loss=1%,up.ge=1%/50%", &["`up.loss=1%`", "`up.ge=1%/50%`"]);
    refused("delay=1ms,delay=2ms", &["given twice"]);
    refused("delay=1ms,seed=1 + delay=1ms,seed=1", &["`seed` is given twice"]);
    refused("delay=1ms,jitter=2ms", &["negative", "at least 2ms"]);
    refused("delay=1ms,jitter=2ms,order=free", &["negative"]);
    refused(
        "delay=1ms,reordering-jitter=2ms",
        &["reordering-jitter=2ms would make", "at least 2ms"],
    );
    refused("delay=5ms,jitter=2ms,reordering-jitter=2ms", &["exclude each other"]);
    refused("delay=5ms,order=kept,reordering-jitter=2ms", &["exclude each other"]);
    refused("drop=every:1", &["nothing would arrive", "every:2"]);
    refused("drop=every:0.5", &["0.5"]);
    refused("loss=every:100", &["write drop=every:100"]);
    refused("delay=1ms,jitter=2ms,jitter-shape=offsets", &["negative", "at least 2ms"]);
    refused(
        "delay=1ms,jitter=2ms,jitter-shape=normal",
        &["keep their order", "reordering-jitter=2ms"],
    );
    refused("trace=ours.trace,jitter=26ms", &["the delay of 25ms"]);
    refused("rate=1mbit,aqm=codel,target=100ms", &["the target is shorter"]);
    refused("loss=60%,burst=1", &["impossible", "at least 1.5"]);
    refused("loss=1%,burst=0.5", &["between 1 and 1000000"]);
    refused("loss=1%,burst=10ns", &["between 1us and 1h"]);
    refused("loss=0.0001%,burst=1s", &["a day"]);
    refused("ge=1%/0%", &["never left"]);
    refused("ge=0%/50%", &["never reached"]);
    refused("ge=1%/50%/10%/10%", &["must lose more"]);
    refused("ge=1%", &["1 parts", "p/r/1-h/1-k"]);
    refused("ge=1%/50%/10%/1%/5%", &["5 parts"]);
    refused("ge=1%/150%", &["between 0% and 100%"]);
}

#[test]
fn a_key_without_effect_is_refused() {
    refused("delay=1ms,burst=4", &["`burst=4` has no effect", "`loss`"]);
    refused("loss=0%,burst=4", &["has no effect", "it needs `loss` above 0"]);
    refused("delay=1ms,queue=64kB", &["no effect", "`rate` or `trace`"]);
    refused("delay=1ms,aqm=codel", &["no effect", "`rate`"]);
    refused("delay=1ms,overhead=38B", &["no effect", "`rate`"]);
    refused("rate=1mbit,target=5ms", &["no effect", "aqm=codel|fq-codel|pie|dualpi2"]);
    refused("rate=1mbit,aqm=pie,interval=50ms", &["no effect", "aqm=codel|fq-codel"]);
    refused("rate=1mbit,ecn=on", &["no effect"]);
    refused("rate=1mbit,aqm=dualpi2,ecn=on", &["no effect", "aqm=codel|fq-codel|pie|red"]);
    refused("rate=1mbit,aqm=red,target=5ms", &["no effect"]);
    refused("rate=1mbit,trace-mode=burst", &["no effect: it needs `trace`"]);
    refused("delay=1ms,jitter=0,order=free", &["no effect: it needs `jitter` above 0"]);
    refused("trace=ours.trace,trace-mode=burst", &["mahimahi's format"]);
    refused("trace=ours.trace,delay=5ms", &["no effect", "a delay of its own"]);
    assert_eq!(up("trace=half.trace,delay=5ms").delay, Nanos(5 * MS));
    refused("delay=1ms,order=free", &["no effect", "`jitter`"]);
    refused("delay=1ms,jitter-shape=normal", &["no effect", "`jitter`"]);
    refused("delay=1ms,reorder-depth=2", &["no effect", "`reorder`"]);
    refused("delay=1ms,reorder-patience=2ms", &["no effect"]);
    refused("reorder=1%,reorder-depth=0", &["outside"]);
    refused("delay=1ms,up.delay=2ms,down.delay=3ms", &["`delay=1ms` has no effect", "precedence"]);
    refused("rate=1mbit,up.trace=lte.up,down.trace=lte.up", &["`rate=1mbit` has no effect"]);
    refused("up.loss=1%,down.burst=4", &["`down.burst=4` has no effect"]);
    assert_eq!(down("burst=4,up.loss=1%").loss, Loss::None);
}

#[test]
fn unknown_words_are_named_with_what_was_meant() {
    refused("dealy=1ms", &["did you mean `delay`?"]);
    refused("latency=1ms", &["here it is `delay`"]);
    refused("bandwidth=1mbit", &["here it is `rate`"]);
    refused("up.los=1%", &["did you mean `loss`?"]);
    refused("up.seed=4", &["holds for the whole path"]);
    refused("lt", &["did you mean `lte`?", "delay=25ms"]);
    refused("delay", &["lacks its value"]);
    refused("delay=", &["lacks its value"]);
    refused("delay=1ms,lte", &["comes first"]);
    refused("delay=1ms:loss=1%", &["a comma stands between keys; write delay=1ms,loss=1%"]);
    refused("up.delay=1ms loss=1%", &["write up.delay=1ms,loss=1%"]);
    refused("delay=1ms,fast", &["key=value"]);
    refused("delay=1ms,", &["nothing between two commas"]);
    refused(",delay=1ms", &["before the first word"]);
    refused("lte,", &["nothing between two commas"]);
    refused("", &["a link without words"]);
    refused("delay=1ms + ", &["a link without words"]);
    refused("delay=25", &["no unit", "25ms"]);
    refused("rate=20Mbit", &["did you mean `mbit`?"]);
    refused("rate=1mbit,aqm=fqcodel", &["did you mean `fq-codel`?"]);
    refused("delay=5ms,jitter=1ms,jitter-shape=norml", &["did you mean `normal`?"]);
    refused("delay=1ms,mtu=500", &["outside", "576"]);
    refused(&["delay=1ms"; 9].join("+"), &["9 links", "at most 8"]);
    refused(&format!("trace={}", "x".repeat(70_000)), &["at most 65536"]);
}

#[test]
fn what_netem_would_take_is_explained() {
    for typed in
        ["loss=1% 25%", "loss=1%/25%", "duplicate=1% 5%", "corrupt=1%/5%", "reorder=1% 50%"]
    {
        refused(typed, &["netem's correlation", "burst=4"]);
    }
    refused("delay=10ms 2ms", &["jitter=2ms"]);
}

#[test]
fn files_are_refused_by_line() {
    refused("drop=@zero.list", &["zero.list: line 2:", "counted from 1"]);
    refused("delay=5ms,jitter=1ms,jitter-shape=lopsided", &["the mean", "subtract it"]);
    refused("delay=5ms,jitter=1ms,jitter-shape=words", &["words: line 2: `1e2` is not an offset"]);
    refused("delay=5ms,jitter=1ms,jitter-shape=5", &["at least two"]);
    refused("drop=@", &["drop=@FILE"]);
    let error = read("trace=nowhere").unwrap_err();
    assert!(matches!(error, Error::Setup { .. }), "{error:?}");
}

#[test]
fn real_files_are_read_and_other_things_refused() {
    let directory = tempfile::tempdir().unwrap();
    let name = |file: &str| directory.path().join(file).to_str().unwrap().to_owned();
    std::fs::write(name("link.trace"), "1\n2\n").unwrap();
    let PathSpec::Emulated(network) =
        PathSpec::parse(&format!("trace={}", name("link.trace"))).unwrap()
    else {
        panic!("a trace is emulated")
    };
    let Rate::Trace(trace) = &network.links[0].up.rate else { panic!("no trace") };
    assert_eq!(trace.length, Nanos(2 * MS));
    let say = |typed: &str| PathSpec::parse(typed).unwrap_err().to_string();
    assert!(say(&format!("trace={}", name("none"))).contains("no such file"));
    assert!(say(&format!("trace={}", name(""))).contains("not a regular file"));
    assert!(say("trace=/dev/zero").contains("not a regular file"));
}

#[test]
fn every_profile_is_a_path_and_prints_itself() {
    for profile in profile::ALL {
        let network = read(profile.name).unwrap();
        assert_eq!(read(&network.to_string()).unwrap(), network, "{}", profile.name);
        assert_eq!(read(profile.text).unwrap(), network, "{}", profile.name);
        assert!(!profile.source.is_empty() && !profile.summary.is_empty(), "{}", profile.name);
    }
}

#[test]
fn canonical_text_is_short_where_it_can_be() {
    for typed in [
        "delay=25ms,loss=1%,rate=20mbit,queue=64kB",
        "up.delay=5ms,down.delay=6ms",
        "loss=1%,burst=4",
        "loss=0.3%,burst=2.5",
        "loss=1%,burst=20ms",
        "ge=1%/25%/90%/0.1%",
        "drop=5-6/40-42",
        "delay=5ms,seed=7,mtu=1280,backend=tun,wait=spin,mode=strict + delay=40ms",
        "delay=5ms,reordering-jitter=1ms,jitter-shape=-1/0.25/0.75",
        "drop=every:100",
        "rate=10mbit,aqm=red,ecn=on",
        "rate=10mbit,aqm=dualpi2,target=15ms",
        "trace=lte.up,trace-mode=burst,overhead=0B",
        "delay=0ms",
    ] {
        assert_eq!(read(typed).unwrap().to_string(), typed);
    }
    assert_eq!(read("up.delay=5ms,down.delay=5ms").unwrap().to_string(), "delay=5ms");
}

/// Draws a value of a key, often a valid one.
fn value(key: &str, rng: &mut SplitMix64) -> String {
    let n = rng.below(2_000_000_000) >> rng.below(30);
    let percent = |n: u64| format!("{}%", n as f64 / 2e7);
    match key {
        "down" => format!("{n}ns-{}ns/{}ns-1h", n + 1, n + 7),
        "host-down" => format!("near@{n}ns-{}ns/far@5ms-6ms", n + 1),
        "drop" if n.is_multiple_of(3) => format!("every:{}", n + 2),
        "drop" => format!("{}/{}-{}", n + 1, n + 3, n + 3 + n % 50),
        "ge" => format!("{}/{}/{}/0.0001%", percent(n), percent(n / 3 + 7), percent(n + 3_000)),
        "burst" if n.is_multiple_of(2) => format!("{}us", n % 1_000_000 + 1),
        "burst" => format!("{}", 1.0 + (n % 997) as f64 / 7.0),
        "jitter-shape" => ["uniform", "normal", "pareto", "-1/0/1"][n as usize % 4].into(),
        "order" => ["kept", "free"][n as usize % 2].into(),
        "trace" => ["lte.up", "ours.trace", "half.trace"][n as usize % 3].into(),
        "trace-mode" => ["spread", "burst"][n as usize % 2].into(),
        "aqm" => ["droptail", "codel", "fq-codel", "pie", "red", "dualpi2"][n as usize % 6].into(),
        "ecn" | "hairpin" => ["on", "off"][n as usize % 2].into(),
        "nat" => ["full-cone", "symmetric", "adm/eif", "eim/adf"][n as usize % 4].into(),
        "nat-timeout" => format!("{n}us"),
        "firewall" => "stateful".into(),
        "ip" => ["4", "6"][n as usize % 2].into(),
        "queue" => {
            [format!("{}B", n + 4_000), format!("{n}pkt"), format!("{n}ns")][n as usize % 3].clone()
        }
        "rate" => format!("{}bit", n + 100),
        "nic" => [format!("{}bit", n + 1_000), "none".into()][n as usize % 2].clone(),
        "overhead" => format!("{}B", n % 1_500),
        "reorder-depth" | "seed" => format!("{n}"),
        "mtu" => format!("{}", 576 + n % 9_000),
        "backend" => ["tun", "packet", "netem"][n as usize % 3].into(),
        "wait" => ["hybrid", "spin", "sleep"][n as usize % 3].into(),
        "mode" => ["strict", "aggregate"][n as usize % 2].into(),
        "loss" | "duplicate" | "corrupt" | "reorder" => percent(n),
        _ => format!("{n}ns"),
    }
}

#[test]
fn what_is_read_prints_so_that_it_reads_the_same() {
    let mut rng = SplitMix64::new(4);
    let mut taken = 0;
    for _ in 0..30_000 {
        let mut links: Vec<String> = Vec::new();
        for link in 0..=rng.below(3) / 2 {
            let mut words: Vec<String> = Vec::new();
            for key in LINK {
                let way = ["", "up.", "down."][rng.below(3) as usize];
                let way = if OF_BOTH.contains(&key.name) { "" } else { way };
                if rng.below(5) == 0 {
                    words.push(format!("{way}{}={}", key.name, value(key.name, &mut rng)));
                }
            }
            let of_path = WHOLE.iter().filter(|key| link == 0 && !hosts::is_role(key.name));
            for key in of_path {
                if rng.below(9) == 0 {
                    words.push(format!("{}={}", key.name, value(key.name, &mut rng)));
                }
            }
            links.push(words.join(","));
        }
        let Ok(network) = read(&links.join("+")) else { continue };
        taken += 1;
        let text = network.to_string();
        let again = read(&text).unwrap_or_else(|e| panic!("{links:?} prints as {text}: {e}"));
        assert_eq!(again, network, "{links:?} prints as {text}");
        assert_eq!(again.to_string(), text);
    }
    assert!(taken > 300, "only {taken} of the paths were taken");
}

#[test]
fn a_chain_of_loss_and_burst_prints_so_that_it_reads_the_same() {
    let mut rng = SplitMix64::new(5);
    for _ in 0..20_000 {
        let share = (rng.below(1_000_000) + 1) as f64 / 1e8;
        let burst = match rng.below(2) {
            0 => format!("{}", 1.0 + rng.below(10_000) as f64 / 100.0),
            _ => format!("{}us", 1_000 + rng.below(500_000)),
        };
        let typed = format!("loss={},burst={burst}", deadheat_base::units::percent(share));
        let Ok(network) = read(&typed) else { continue };
        assert_eq!(read(&network.to_string()).unwrap(), network, "{typed} prints as {network}");
    }
}

#[test]
fn losses_per_super_packet_are_asked_for_by_name_and_only_where_there_are_any() {
    assert_eq!(up("loss=1%").loss_per, LossPer::Packet);
    assert_eq!(up("loss=1%,loss-per=super").loss_per, LossPer::Super);
    assert_eq!(up("loss=1%,burst=4,loss-per=super").loss_per, LossPer::Super);
    let both = read("loss=1%,up.loss-per=super").unwrap();
    assert_eq!(both.links[0].down.loss_per, LossPer::Packet);
    assert_eq!(read(&both.to_string()).unwrap(), both);
    refused("delay=1ms,loss-per=super", &["loss-per", "needs", "loss"]);
    refused("loss=1%,burst=20ms,loss-per=super", &["loss-per", "outages"]);
    refused("loss=1%,loss-per=frame", &["loss-per", "super"]);
    let simulated = PathSpec::parse("sim:loss=1%,loss-per=super").unwrap_err().to_string();
    assert!(simulated.contains("no super-packets"), "{simulated}");
}

#[test]
fn a_network_of_several_hosts_is_read_and_written_again() {
    let read = |typed: &str| Network::parse(typed).unwrap();
    for typed in [
        "hamburg--isp:delay=5ms,up.rate=10mbit + isp--oslo:loss=1%",
        "a--b + b--c:delay=1ms,seed=7,near=c,far=a",
        "near--r:delay=1ms + r--far:delay=2ms",
        "x--y:delay=3ms",
        "a--r + r--b + r--c + r--d:delay=1ms,far=b,relay=c,load=d/b",
        "a--r + r--b + r--c,receivers=c/b",
        "a--r + r--b + r--c + r--d,people=b/c/d,relay=a",
    ] {
        let network = read(typed);
        assert_eq!(read(&network.to_string()), network, "{network}");
    }
    let network = read("a--r:lte + r--c + r--b:delay=1ms,near=c");
    assert_eq!(network.hosts, ["a", "r", "c", "b"]);
    assert_eq!((network.near, network.far), (2, 3));
    assert_eq!(network.links[1].ends, [1, 2]);
    assert!(network.forwards(1) && !network.forwards(0));
    assert_eq!(network.link_name(1), "r--c");
    let network = read("a--r + r--b + r--c + b--c + r--d,relay=b,receivers=d/c,load=b/c");
    assert_eq!((network.relay, network.load), (Some(2), Some([2, 3])));
    assert_eq!((&network.receivers[..], network.far), (&[4, 3][..], 4));
    assert!(network.forwards(1) && !network.forwards(2) && !network.forwards(3), "roles are ends");
    assert!(network.journeys().contains(&vec![3, 2, 0]), "{:?}", network.journeys());
    let people = read("a--r + r--b + r--c + r--d,people=b/c/d");
    assert_eq!((people.near, people.far), (2, 4));
}

#[test]
fn a_nat_or_a_firewall_stands_at_the_first_host_of_a_link() {
    let of = |typed: &str| read(typed).unwrap().links[0].middlebox;
    let (one, other, both) =
        (Dependence::Independent, Dependence::Address, Dependence::AddressAndPort);
    for (word, mapping, filtering) in [
        ("full-cone", one, one),
        ("restricted", one, other),
        ("port-restricted", one, both),
        ("symmetric", both, both),
        ("adm/eif", other, one),
        ("apdm/adf", both, other),
    ] {
        let usual = Middlebox {
            mapping: Some(mapping),
            filtering,
            timeout: Nanos(300_000 * MS),
            hairpin: true,
            is_nat64: false,
        };
        assert_eq!(of(&format!("delay=1ms,nat={word}")), Some(usual));
        assert_eq!(read(&format!("nat={word}")).unwrap().to_string(), format!("nat={word}"));
    }
    assert_eq!(read("nat=eim/adf").unwrap().to_string(), "nat=restricted");
    let own = of("nat=symmetric,nat-timeout=2s,hairpin=off").unwrap();
    assert_eq!((own.timeout, own.hairpin), (Nanos(2_000 * MS), false));
    let wall = of("firewall=stateful").unwrap();
    assert_eq!((wall.mapping, wall.filtering), (None, both));
    for typed in ["firewall=stateful,nat-timeout=30s", "delay=1ms,nat=adm/apdf,hairpin=off"] {
        assert_eq!(read(typed).unwrap().to_string(), typed);
    }
    assert_eq!(of("delay=1ms"), None);

    refused("nat=cone", &["unknown value `cone`", "full-cone", "apdm/adf"]);
    refused("up.nat=symmetric", &["both directions", "write nat=symmetric"]);
    refused("nat=symmetric,firewall=stateful", &["exclude each other"]);
    refused("delay=1ms,hairpin=off", &["no effect", "`nat`"]);
    refused("firewall=stateful,hairpin=off", &["no effect", "`nat`"]);
    refused("delay=1ms,nat-timeout=30s", &["no effect", "`nat` or `firewall`"]);
    refused("a--r + b--r:nat=symmetric,near=a,far=b", &["`b--r`", "from outside", "write r--b"]);
    let star = "a--r:firewall=stateful + r--b + c--r:nat=restricted,near=a,far=b";
    assert!(read(star).is_ok());
    refused(&format!("{star},relay=c"), &["`c--r`", "`a` connects to `c` from outside"]);
    refused(&format!("{star},load=b/c"), &["`b` connects to `c` from outside"]);
    assert!(read(&format!("{star},load=c/b")).is_ok());
    for word in ["nat=symmetric", "firewall=stateful"] {
        let simulated = PathSpec::parse(&format!("sim:delay=1ms,{word}")).unwrap();
        let PathSpec::Simulated(network) = simulated else { panic!("{word}") };
        assert_eq!(network.links[0].middlebox, of(&format!("delay=1ms,{word}")));
    }
}

#[test]
fn a_nat64_stands_between_links_of_ipv6_and_of_ipv4() {
    let typed = "phone--gate:ip=6 + gate--isp:nat=64/adf + isp--server:ip=4,near=phone,far=server";
    let network = read(typed).unwrap();
    assert_eq!(read(&network.to_string()).unwrap(), network);
    let families: Vec<Family> = network.links.iter().map(|link| link.family).collect();
    assert_eq!(families, [Family::V6, Family::V4, Family::V4]);
    let own = network.links[1].middlebox.unwrap();
    assert!(own.is_nat64 && own.mapping == Some(Dependence::Independent));
    assert_eq!(own.filtering, Dependence::Address);
    let dialled = |at: &str| {
        let ends = [network.near, network.far];
        routes::dialled(&network, ends, at.parse().unwrap()).map(|at| at.to_string())
    };
    assert_eq!(dialled("198.18.2.2").as_deref(), Some("64:ff9b::c612:202"));
    assert_eq!(dialled("fd64::2"), None, "there is no IPv6 behind it");
    let both = read("phone--gate + gate--server:nat=64").unwrap();
    let at = "198.18.1.2".parse().unwrap();
    assert_eq!(routes::dialled(&both, [0, 2], at), Some(at), "IPv4 passes as it is");

    let stands = "stands at a host that passes packets on";
    refused("nat=64", &["`nat=64`", stands]);
    refused("a--b:nat=64", &["a--b", stands]);
    refused("a--r:ip=4 + r--b:nat=64", &["r--b", stands]);
    refused("a--r:ip=6 + r--b:nat=64,ip=6", &["outside a NAT64 there is IPv4"]);
    refused("a--r:ip=6,mtu=1200 + r--b:nat=64", &["MTU of 1280"]);
    refused("a--r:ip=6 + r--b:ip=4", &["`a` and `b`", "no version of IP", "nat=64"]);
    refused("a--r:ip=4 + r--s:ip=6 + s--b:nat=64,far=b", &["no version of IP"]);
    refused("a--r:ip=6 + b--r:nat=64,near=a,far=b", &["`b--r`", "from outside"]);
    refused("up.ip=6", &["both directions", "write ip=6"]);
}

#[test]
fn a_network_that_makes_no_sense_is_refused_with_what_is_wrong() {
    for (typed, said) in [
        ("a--a:delay=1ms", "joins a host to itself"),
        ("a--b:delay=1ms + delay=2ms", "link 2 names no hosts"),
        ("a--b + c--d", "no way to"),
        ("a--b + b--c,near=x", "unknown host `x`"),
        ("a--b + b--c,near=c", "both near and far"),
        ("delay=1ms,near=a", "no link names its hosts"),
        ("a--b + b--c,relay=x", "relay: unknown host `x`"),
        ("a--b + b--c,relay=b", "`a` has no way to `c`"),
        ("a--b + b--c,load=a", "load= names two hosts"),
        ("a--b + b--c,load=a/b/c", "load= names two hosts"),
        ("a--r + r--c + r--b,load=a/a", "load= names `a` twice"),
        ("a--r + r--c + r--b,receivers=a/c", "`a` is the near host, which sends to the receivers"),
        ("a--r + r--c + r--b,receivers=c//b", "no name of a host"),
        ("a--r + r--c + r--b,people=c", "people= names `c` alone"),
        ("delay=1ms,relay=a", "no link names its hosts"),
        ("delay=1ms,route=a/b", "no link names its hosts"),
        ("a--r + r--b,route=a", "two hosts or more"),
        ("a--r + r--b,route=a/x/b", "unknown host `x`"),
        ("a--r + r--b,route=a/b", "no link is between `a` and `b`"),
        ("a--r + r--s + s--r + s--b,route=a/r/s/r/s/b", "a loop: it comes to `r` twice"),
        ("a--b + b--c + c--r + r--a,far=c,route=r/a/b/c", "`a` passes nothing on"),
        (
            "a--r + r--s + s--b + r--t + t--b,far=b,route=a/r/s/b|r/t/b",
            "`route=r/t/b`: `r` sends to `b` by another host",
        ),
        ("A--b", "no name of a host"),
        ("a---b", "no name of a host"),
        ("a--b:", "ends in the middle"),
        ("a--b:dealy=1ms", "did you mean `delay`?"),
    ] {
        let error = Network::parse(typed).map(drop).unwrap_err().to_string();
        assert!(error.contains(said), "{typed}: {error}");
    }
    let many: Vec<String> = (0..300).map(|at| format!("h{at}--h{}", at + 1)).collect();
    let error = Network::parse(&many.join(" + ")).unwrap_err().to_string();
    assert!(error.contains("a path of 300 links; at most 255"), "{error}");
}

#[test]
fn routes_as_written_print_themselves_and_stand_in_a_file_as_a_list() {
    let typed = "a--r + r--s + s--b + r--b,near=a,far=b";
    let network = read(&format!("{typed},route=a/r/s/b|b/s/r")).unwrap();
    assert_eq!(network.routes, [[0, 1, 2, 3].to_vec(), [3, 2, 1].to_vec()]);
    assert_eq!(read(&network.to_string()).unwrap(), network);
    let link = |ends: &str| format!("[[link]]\nbetween = {ends}\n");
    let text = format!(
        "far = \"b\"\nroute = [\"a/r/s/b\", \"b/s/r\"]\n{}{}{}{}",
        link("[\"a\", \"r\"]"),
        link("[\"r\", \"s\"]"),
        link("[\"s\", \"b\"]"),
        link("[\"r\", \"b\"]")
    );
    let mut file = |_: &str| Ok(text.clone().into_bytes());
    assert_eq!(Network::parse_with("file=net.toml", &mut file).unwrap(), network);
}

#[test]
fn a_file_is_a_network_and_opens_no_other_file() {
    let parse = |text: &str, typed: &str| {
        let mut read = |name: &str| match name {
            "net.toml" => Ok(text.as_bytes().to_vec()),
            other => panic!("{other} was read"),
        };
        Network::parse_with(typed, &mut read)
    };
    let text = r#"
near = "home"
far = "cloud"
seed = 7
[[link]]
between = ["home", "isp"]
path = "delay=5ms,up.rate=10mbit"
[[link]]
between = ["isp", "cloud"]
path = "delay=20ms"
[[link]]
between = ["friend", "isp"]
"#;
    let network = parse(text, "file=net.toml").unwrap();
    let line =
        "home--isp:seed=7,delay=5ms,up.rate=10mbit,far=cloud + isp--cloud:delay=20ms + friend--isp";
    assert_eq!(network, Network::parse(line).unwrap());
    let other = parse(text, "file=net.toml,near=friend,seed=8").unwrap();
    assert_eq!((other.near, other.seed), (3, Some(8)));
    let listed =
        parse(&text.replace("seed = 7", "receivers = [\"cloud\", \"friend\"]"), "file=net.toml");
    assert_eq!(listed.unwrap().receivers, [2, 3]);
    let mtus = |text: &str, typed: &str| -> Vec<u16> {
        parse(text, typed).unwrap().links.iter().map(|link| link.mtu).collect()
    };
    let narrow = text.replace("delay=20ms", "delay=20ms,mtu=1300");
    assert_eq!(mtus(&narrow, "file=net.toml"), [1500, 1300, 1500]);
    assert_eq!(mtus(&format!("mtu = 1400{narrow}"), "file=net.toml"), [1400, 1300, 1400]);
    assert_eq!(mtus(&format!("mtu = 1400{narrow}"), "file=net.toml,mtu=9000"), [9000, 1300, 9000]);
    let link = "[[link]]\nbetween = [\"a\", \"b\"]\n";
    for (text, said) in [
        ("", "has no [[link]]"),
        ("[[link]]\nbetween = [\"a\"]", "length"),
        (&format!("{link}delay = 3"), "unknown field `delay`"),
        (&format!("{link}path = \"trace=x.csv\""), "names a file"),
        (&format!("{link}path = \"delay=1ms + delay=2ms\""), "[[link]] of its own"),
        (&format!("seed = [1]\n{link}"), "seed: array is no word"),
        (&format!("sed = 1\n{link}"), "did you mean `seed`?"),
        (&format!("delay = \"1ms\"\n{link}"), "unknown key `delay`"),
        ("[[link]]\nbetween = [\"a\", \"a\"]", "joins a host to itself"),
        ("not toml", "net.toml"),
    ] {
        let error = parse(text, "file=net.toml").map(drop).unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
    let named = super::outside("file=net.toml,near=a").unwrap();
    assert_eq!(named.len(), 1);
    assert_eq!(named[0].name, "net.toml");
}

#[test]
fn a_path_in_a_file_is_written_out_and_any_other_stays_as_typed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("net.toml");
    std::fs::write(
        &file,
        "near = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\npath = \"delay=1ms\"\n",
    )
    .unwrap();
    let typed = format!("file={},far=a", file.display());
    assert_eq!(super::written_out(&typed).unwrap(), "a--b:delay=1ms,near=b,far=a");
    assert_eq!(
        super::written_out(&format!("sim:{typed}")).unwrap(),
        "sim:a--b:delay=1ms,near=b,far=a"
    );
    for typed in ["lte, loss=1%", "sim:", "", "a--b", "no path"] {
        assert_eq!(super::written_out(typed).unwrap(), typed);
    }
    let said = super::written_out("file=nowhere.toml").unwrap_err().to_string();
    assert!(said.contains("nowhere.toml"), "{said}");
}
