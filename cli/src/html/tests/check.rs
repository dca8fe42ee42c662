//! What every page has to be: a file that loads nothing, whose charts have shapes, all of them inside their charts.

/// Fails if the page is not as it should be; says which charts it has.
pub(crate) fn check(page: &str) -> usize {
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    for loads in [
        "<script",
        "<link",
        "<img",
        "<iframe",
        "src=",
        "url(",
        "@import",
        "http:",
        "https:",
        "javascript:",
    ] {
        assert!(!page.contains(loads), "{loads}");
    }
    let odd = |c: char| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c);
    assert_eq!(page.find(odd), None, "a control character");
    let figures: Vec<&str> = page.split("<figure").skip(1).collect();
    for figure in &figures {
        let figure = figure.split("</figure>").next().unwrap_or_default();
        let drawn: usize = svgs(figure).iter().map(|svg| shapes(svg)).sum();
        assert!(drawn > 0, "a chart without a shape: {figure}");
    }
    svgs(page).iter().for_each(|svg| {
        shapes(svg);
    });
    places(page);
    figures.len()
}

/// The SVG elements of a text.
fn svgs(text: &str) -> Vec<&str> {
    let ends = text.split("</svg>");
    let begins = ends.filter_map(|part| part.find("<svg").map(|at| &part[at..]));
    begins.collect()
}

/// Fails if a coordinate lies outside the chart; says how many shapes have a colour of the chart's own.
fn shapes(svg: &str) -> usize {
    let text = format!("{svg}</svg>");
    let svg = roxmltree::Document::parse(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let view = svg.root_element().attribute("viewBox").expect("a viewBox");
    let view: Vec<f64> = view
        .split(' ')
        .map(|n| n.parse().expect("a number"))
        .collect();
    let inside = |x: f64, y: f64| {
        let within = |at: f64, begin: f64, length: f64| {
            (begin - 1e-6..=begin + length + 0.011).contains(&at)
        };
        assert!(
            within(x, view[0], view[2]) && within(y, view[1], view[3]),
            "{x} {y} outside {view:?}: {text}"
        );
    };
    let mut drawn = 0;
    let elements = svg
        .root_element()
        .children()
        .filter(roxmltree::Node::is_element);
    for element in elements {
        let number = |name: &str| {
            element
                .attribute(name)
                .map_or(0.0, |n| n.parse().expect("a number"))
        };
        match element.tag_name().name() {
            "rect" => {
                inside(number("x"), number("y"));
                inside(
                    number("x") + number("width"),
                    number("y") + number("height"),
                );
            }
            "path" => path(element.attribute("d").expect("data"), &inside),
            other => panic!("<{other}> is not checked"),
        }
        let class = element.attribute("class").unwrap_or_default();
        drawn += usize::from(!matches!(class, "track" | "grid" | "named"));
    }
    drawn
}

/// Follows the data of a path.
fn path(data: &str, inside: &impl Fn(f64, f64)) {
    let (mut x, mut y) = (0.0, 0.0);
    let mut rest = data;
    while let Some(command) = rest.chars().next() {
        let end = rest[1..]
            .find(|c: char| c.is_ascii_alphabetic())
            .map_or(rest.len(), |at| at + 1);
        let numbers = rest[1..end].split(' ').filter(|n| !n.is_empty());
        let numbers: Vec<f64> = numbers.map(|n| n.parse().expect(data)).collect();
        match (command, numbers.as_slice()) {
            ('M' | 'L', [to_x, to_y]) => (x, y) = (*to_x, *to_y),
            ('H', [to]) => x = *to,
            ('V', [to]) => y = *to,
            ('h', [by]) => x += by,
            ('v', [by]) => y += by,
            ('z', []) => {}
            _ => panic!("{command} {numbers:?} in {data}"),
        }
        inside(x, y);
        rest = &rest[end..];
    }
}

/// Fails if a text that stands beside a chart lies outside of it.
fn places(page: &str) {
    for name in ["left:", "top:"] {
        let mark = format!("style=\"{name}");
        let found = page
            .match_indices(&mark)
            .map(|(at, m)| &page[at + m.len()..]);
        for rest in found {
            let value = rest.split('%').next().unwrap_or_default();
            let value: f64 = value.parse().expect("a percentage");
            assert!((0.0..=100.0).contains(&value), "{name}{value}%");
        }
    }
}

#[test]
fn a_shape_outside_its_chart_is_found() {
    let fails = |svg: &str| std::panic::catch_unwind(|| shapes(svg)).is_err();
    assert!(!fails(r#"<svg viewBox="0 0 9 9"><path d="M1 2h3v4h-3z"/>"#));
    for wrong in [
        r#"<path d="M1 2h9"/>"#,
        r#"<path d="M1 2L3 -1"/>"#,
        r#"<rect x="8" width="2" height="1"/>"#,
        r#"<circle/>"#,
        "<rect>",
    ] {
        assert!(
            fails(&format!(r#"<svg viewBox="0 0 9 9">{wrong}"#)),
            "{wrong}"
        );
    }
}
