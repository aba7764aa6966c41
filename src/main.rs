//! temp
fn main() {
    deadheat::trial::process::enter();
    let args: Vec<String> = std::env::args().collect();
    use deadheat::trial::{agents::*, placement::*, remote::*, *};
    let mut agents =
        Agents::new(Far::Loopback(if args.get(4).is_some() { Family::V6 } else { Family::Any }));
    let placement = Placement::parse(&args[3]).unwrap();
    let wait = if placement == Placement::Busy {
        deadheat::contract::WaitMode::Spin
    } else {
        deadheat::contract::WaitMode::Hybrid
    };
    for i in 0..3 {
        let end = agents.run(&Order {
            contender: args[1].clone(),
            workload: args[2].clone(),
            placement,
            wait,
            seed: 1 + i,
            samples: None,
        });
        match end {
            End::Ran(r) => println!(
                "{}",
                if i == 0 {
                    serde_json::to_string(&r).unwrap()
                } else {
                    format!("{:?} took {}", r.metrics, r.took_ns)
                }
            ),
            other => println!("{other:?}"),
        }
    }
}
