//! A published table, checked against the raw data that it was made from: the times of 1000 transfers
//! over TCP and 1000 over UDP, in milliseconds. The data are others' and not part of this project.

use super::*;

/// The folder of the data, where it is not beside the checkout.
const FOLDER: &str = "DEADHEAT_PERLTEN";

/// The table as published: minimum, quartiles, maximum in ms, and how many transfers.
const TCP: [f64; 6] = [412.0, 566.0, 627.0, 641.0, 905.0, 1000.0];
const UDP: [f64; 6] = [412.0, 421.0, 424.0, 428.0, 516.0, 1000.0];
const CELLS: [&str; 6] = ["min", "Q1", "median", "Q3", "max", "data size"];

fn folder() -> Option<PathBuf> {
    let beside =
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join("shared").join("data/perlten");
    let folder = std::env::var_os(FOLDER).map_or_else(beside, PathBuf::from);
    folder.join("tcp_ms.txt").is_file().then_some(folder)
}

#[test]
fn ten_of_twelve_published_cells_are_those_of_the_data() {
    let Some(folder) = folder() else {
        println!("skipped: the raw data are not beside the checkout, nor where {FOLDER} says");
        return;
    };
    let files = ["tcp_ms.txt", "udp_ms.txt"].map(|name| folder.join(name));
    let import = Import::new(files).unit("ms").unwrap().each("trial").unwrap();
    let outcome = import.run(None).unwrap();
    let definition = &outcome.plan.quantile_definition;
    assert!(definition.starts_with("nearest rank (Hyndman-Fan type 1)"), "{definition}");
    let mut wrong = Vec::new();
    for (label, published) in [("tcp_ms", TCP), ("udp_ms", UDP)] {
        let own = spread(&outcome, label);
        let quartiles = [own.q1, own.median, own.q3].map(Option::unwrap);
        let ms = |ns: f64| ns / 1e6;
        let data = [own.min, quartiles[0], quartiles[1], quartiles[2], own.max].map(ms);
        let data = data.into_iter().chain([own.n as f64]);
        for ((cell, published), data) in CELLS.iter().zip(published).zip(data) {
            if published != data {
                wrong.push((label, *cell, published, data));
            }
        }
    }
    assert_eq!(
        wrong,
        [("tcp_ms", "Q1", 566.0, 615.0), ("udp_ms", "max", 516.0, 511.0)],
        "of twelve cells"
    );
    let median = |label| spread(&outcome, label).median.unwrap();
    let saved = 1.0 - median("udp_ms") / median("tcp_ms");
    // As published, cut off after one digit; rounded it would be 32.4 %.
    assert_eq!((saved * 1000.0).floor() / 10.0, 32.3);
    assert!(unknown(&outcome).contains("The order is lost"));
    assert_eq!(outcome.verdicts[0].ahead, Some(1));
}
