//! Files of pairs: what they give, and what is wrong with them, by line.

use std::fs;

use super::*;
use deadheat_contract::workload::programs::FiguresAsked;

/// Writes a file and reads it as a contender with these variables.
fn read(text: &str, set: &str) -> std::result::Result<Contender, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pair.toml");
    fs::write(&file, text).unwrap();
    let typed = format!("cmd:file={}{set}", file.display());
    // The place of the file is another one in each run.
    let place = folder.path().display().to_string();
    parse(&typed).map_err(|error| error.to_string().replace(&place, ""))
}

fn pair(text: &str) -> Arc<CommandPair> {
    Arc::clone(&read(text, "").unwrap().commands.unwrap().pair)
}

fn refused(text: &str) -> String {
    read(text, "").err().unwrap_or_else(|| panic!("must be refused: {text}"))
}

const PLAIN: &str = "server = 'srv {port}'\nclient = 'cli {host} {port} {bytes}'\n";

#[test]
fn a_file_gives_commands_figures_and_defaults() {
    let text = r#"
server = "{bin} -s -p {port}"
client = "{bin} -c {host} -p {port} -n {bytes}"
ready = "tcp"
direction = "down"
timeout = "5s"
stop = "SIGINT"
received = "{dir}/out"
[set]
bin = "prog"
[[figure]]
name = "rate"
unit = "Mbit/s"
pointer = "/rate"
[[figure]]
name = "wait"
unit = "ms"
regex = '(?<wait>\d+) ms'
in = "stderr"
"#;
    let pair = pair(text);
    assert_eq!((pair.name.as_str(), pair.direction), ("pair", Direction::Down));
    assert_eq!((pair.timeout, pair.stop), (Nanos::from_secs(5), StopSignal::Int));
    assert_eq!(pair.ready, ReadySign::Port(Some(Port::Tcp)));
    assert_eq!(pair.received.as_deref(), Some("out"));
    assert_eq!((pair.server.line, pair.client.line), (Some(2), Some(3)));
    let names: Vec<&str> = pair.figures.iter().map(|figure| figure.figure.name.as_str()).collect();
    assert_eq!(names, ["rate", "wait", "time", "cpu"], "every pair has a time and CPU time");
    assert_eq!(pair.figures[1].text, FigureText::Stderr);
    let plain = super::tests::pair(PLAIN);
    assert_eq!((plain.ready.clone(), plain.stop), (ReadySign::Port(None), StopSignal::Term));
}

#[test]
fn variables_that_are_typed_tell_two_builds_apart() {
    let text =
        "server = '{bin} {port}'\nclient = '{bin} {host} {port} {bytes}'\n[set]\nbin = 'old'\n";
    let of = |set: &str| read(text, set).unwrap();
    let new = of(",set=bin=new");
    let pair = &new.commands.as_ref().unwrap().pair;
    assert_eq!(pair.client.program(&pair.folder), "new");
    assert_eq!(new.asked()["set.bin"], "new");
    assert_eq!(new.asked()["server"], "{bin} {port}", "as written");
    assert_eq!(of("").asked()["set.bin"], "old");
    let said = read(text, ",set=bni=x").unwrap_err();
    assert!(
        said.contains("did you mean `bin`?") && said.contains("neither command has {bni}"),
        "{said}"
    );
    let said = read(text, ",set=bin=a,set=bin=b").unwrap_err();
    assert!(said.contains("key `set` is given twice"), "{said}");
    let two = text.replace("{host}", "{host} {cc}");
    let both = read(&two, ",set=bin=a,set=cc=bbr").unwrap();
    assert_eq!(both.asked()["set.cc"], "bbr");
}

#[test]
fn a_contender_of_a_result_is_made_without_its_file() {
    let text = format!("{PLAIN}[[figure]]\nname = 'rate'\nunit = 'Mbit/s'\npointer = '/rate'\n");
    let first = read(&text, "").unwrap();
    let again = Contender::recorded(&first.spec.to_string(), &first.asked()).unwrap();
    assert_eq!(again.asked(), first.asked());
    let (again, first) = (again.commands.unwrap(), first.commands.unwrap());
    assert_eq!(again.pair.figures.len(), first.pair.figures.len());
    assert_eq!(again.pair.client.typed, first.pair.client.typed);
    let bare = Contender::recorded("cmd:file=/no/such", &BTreeMap::new()).unwrap_err();
    assert!(bare.to_string().contains("no file is opened"), "{bare}");
}

#[test]
fn mistakes_are_named_with_their_line_and_what_would_be_right() {
    for (text, line, what) in [
        ("server = 'srv'\nclient = 'cli {port}'\n", ":1:", "no {port} in it"),
        ("server = 'srv {port}'\nclient = 'cli'\n", ":2:", "no {port} in it"),
        ("server = 'srv {prot}'\nclient = 'cli {port}'\n", ":1:", "did you mean `port`"),
        ("server = 'srv {port}'\nclient = \"cli '{port}\"\n", ":2:", "no command"),
    ] {
        let said = refused(text);
        assert!(said.starts_with(&format!("/pair.toml{line}")) && said.contains(what), "{said}");
    }
    for (more, line, what) in [
        ("ready = 'tpc'", ":3:", "ready-line"),
        ("ready-line = '('", ":3:", "no regular expression"),
        ("direction = 'left'", ":3:", "(valid: up, down)"),
        ("timeout = '5'", ":3:", "timeout"),
        ("timeout = '50h'", ":3:", "from 100ms to 24h"),
        ("stop = 'TERM'", ":3:", "SIGTERM"),
        ("received = '/etc/passwd'", ":3:", "{dir}"),
        ("[[figure]]\nname = 'a'\nunit = 's'", ":4:", "pointer ="),
        ("[[figure]]\nname = 'a'\npointer = '/a'", ":4:", "unit = \"Mbit/s\""),
        ("[[figure]]\nname = 'a'\nunit = 's'\npointer = 'a'", ":6:", "begins with /"),
        ("[[figure]]\nname = 'a'\nunit = 's'\nregex = '[0-9]+'", ":6:", "(?<a>…)"),
        ("[[figure]]\nname = 'a'\nunit = 'count'\npointer = '/a'", ":4:", "better = \"higher\""),
        (
            "[[figure]]\nname = 'a'\nof = 'time'\n[[figure]]\nname = 'a'\nof = 'goodput'",
            ":7:",
            "already, at line 4; give each a name of its own",
        ),
        ("[[figure]]\nname = 'a'\nof = 'time'\nunit = 'ms'", ":6:", "leave unit out"),
        ("[[figure]]\nname = 'a'\nunit = 'mile'\npointer = '/a'", ":5: figure, unit:", "mile"),
        (
            "[[figure]]\nname = 'a'\nunit = 's'\nbetter = 'less'\npointer = '/a'",
            ":6: figure, better:",
            "(valid: higher, lower)",
        ),
    ] {
        let said = refused(&format!("{PLAIN}{more}\n"));
        assert!(said.starts_with(&format!("/pair.toml{line}")) && said.contains(what), "{said}");
    }
    let said = refused("server = 'srv {port}'\nclient = 'cli {port}'\nclinet = 'x'\n");
    assert!(
        said.contains("pair.toml:3: ") && said.contains("clinet") && said.contains("ready-line"),
        "{said}"
    );
    let said = refused("server = 'srv {port}'\n");
    assert!(said.contains("missing field `client`; a pair has both commands"), "{said}");
    let said = refused(&format!("{PLAIN}timeout = 5\n"));
    assert!(said.contains("pair.toml:3: ") && said.contains("timeout = \"60s\""), "{said}");
    let said = refused("server = 'srv {port}'\nclient = cli {port}\n");
    assert!(said.contains("pair.toml:2: ") && said.contains("a text in quotes"), "{said}");
    let none = parse("cmd").unwrap_err().to_string();
    assert!(none.contains("names no file; write cmd:file=PATH"), "{none}");
    for other in ["server: srv {port}\n", "{\"server\": \"srv {port}\"}"] {
        let said = refused(other);
        assert!(
            said.contains("pair.toml:1: ") && said.contains("is in TOML, as in server"),
            "{said}"
        );
    }
    let bare = parse("cmd:").unwrap_err().to_string();
    assert!(bare.contains("write cmd:file=PATH"), "{bare}");
    let whole = allowed("cmd:file=pair.toml").unwrap_err().to_string();
    assert!(whole.contains("named alone: pair.toml"), "{whole}");
    let bare = parse("cmd:pair.toml").unwrap_err().to_string();
    assert!(bare.contains("write cmd:file=pair.toml"), "{bare}");
    let gone = parse("cmd:file=/no/such.toml").unwrap_err().to_string();
    assert!(gone.contains("/no/such.toml") && gone.contains("keys server and client"), "{gone}");
}

#[test]
fn a_pair_says_which_work_it_can_do() {
    let transfer = |direction| ProgramWork::Transfer { bytes: 10_000_000, direction };
    let figures = |figures: &[&str], time| {
        let figures = figures.iter().map(|figure| ProgramFigure::parse(figure).unwrap()).collect();
        ProgramWork::Figures(FiguresAsked { figures, time, bytes: None })
    };
    let mover = pair(PLAIN);
    assert_eq!(mover.misfit(&transfer(Direction::Up)), None);
    assert!(mover.misfit(&transfer(Direction::Down)).unwrap().contains("direction=up"));
    assert!(mover.misfit(&figures(&["time:s:lower"], None)).unwrap().contains("bytes=10MB"));
    let timed = pair("server = 'srv {port}'\nclient = 'cli {host} {port} {seconds}'\n");
    assert!(timed.misfit(&transfer(Direction::Up)).unwrap().contains("{bytes}"));
    let second = Some(Nanos::from_secs(1));
    assert_eq!(timed.misfit(&figures(&["time:s:lower"], second)), None);
    assert!(timed.misfit(&figures(&["time:s:lower"], None)).unwrap().contains("time=1s"));
    let other = timed.misfit(&figures(&["rate:Mbit/s:higher"], second)).unwrap();
    assert!(other.contains("no figure rate:Mbit/s:higher; it has time:s:lower"), "{other}");
}

#[test]
fn a_program_that_is_not_there_is_named_with_the_place_where_it_was_looked_up() {
    let pair = pair("server = 'no-such-program {port}'\nclient = 'no/such {port}'");
    let said = |side| pair.check(side).unwrap_err().to_string();
    assert!(said(Side::Far).contains("on this host; install it"), "{}", said(Side::Far));
    let read = super::tests::pair("server = '/etc/passwd {port}'\nclient = '/etc {port}'");
    let why = read.check(Side::Far).unwrap_err().to_string();
    assert!(why.contains("`/etc/passwd` is not executable; chmod +x"), "{why}");
    let why = read.check(Side::Near).unwrap_err().to_string();
    assert!(why.contains("`/etc` is a folder"), "{why}");
    let here = std::env::current_dir().unwrap().display().to_string();
    assert!(said(Side::Near).contains(&format!("in {here}, where the race was typed")));
}

#[test]
fn what_it_names_is_known_without_opening_the_file() {
    let named = Contender::outside("cmd:file=/no/such.toml,set=bin=x").unwrap();
    let shown: Vec<String> = named.iter().map(ToString::to_string).collect();
    let expected = [
        "the file `/no/such.toml` (file of cmd)",
        "the command `those in /no/such.toml` (file of cmd)",
    ];
    assert_eq!(shown, expected);
    assert!(Contender::sent("cmd:file=/no/such.toml").is_err(), "a peer names no command");
}
