//! The dependency graph of the files of one crate. A file depends on another file if it names an item that this file
//! defines, by `use` or by a path in code. A re-export stands for the item: a file that names it depends on the file
//! that defines the item, not on the file with the `pub use`; and a file that re-exports items of modules below it does
//! not depend on them for that. A module that is a part of a path is no item, nor are methods, which have no path. Code
//! under `#[cfg(test)]` does not count. If a path names an item that the module does not define in its source, a macro
//! has made it there: the dependency is on the module's file.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, UseTree, Visibility};

/// The edges: the file that names an item, the file that defines it, and one such item.
pub(crate) type Edges = BTreeMap<(String, String), String>;

/// Reads the modules of a crate from its root on; `source` has the text of each file that exists.
pub(crate) fn edges(root: &str, source: &dyn Fn(&str) -> Option<String>) -> Edges {
    let mut tree = Tree::default();
    tree.read(root.to_owned(), Vec::new(), source);
    let mut edges = Edges::new();
    for (module, items) in &tree.code {
        let mut names = Names {
            tree: &tree,
            module,
            file: &tree.modules[module].file,
            edges: &mut edges,
        };
        for item in items {
            names.visit_item(item);
        }
    }
    edges
}

/// The sets of files in which each file depends, directly or not, on all the others.
pub(crate) fn circles<'a>(
    edges: impl Iterator<Item = (&'a str, &'a str)>,
) -> Vec<BTreeSet<&'a str>> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in edges {
        next.entry(from).or_default().push(to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> = next
        .keys()
        .map(|&start| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
            while let Some(node) = open.pop() {
                for &to in next.get(node).into_iter().flatten() {
                    if seen.insert(to) {
                        open.push(to);
                    }
                }
            }
            (start, seen)
        })
        .collect();
    let circles: BTreeSet<BTreeSet<&str>> = reached
        .iter()
        .filter(|(node, seen)| seen.contains(*node))
        .map(|(node, seen)| {
            let back = |other: &&&str| reached.get(**other).is_some_and(|s| s.contains(node));
            seen.iter().filter(back).copied().collect()
        })
        .collect();
    circles.into_iter().collect()
}

type ModulePath = Vec<String>;

/// What a name may mean.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Meaning {
    Module(ModulePath),
    /// The file that defines the item.
    Item(String),
}

#[derive(Default, Debug)]
struct Module {
    file: String,
    items: HashSet<String>,
    /// The macros among them, which the modules below may call without a path.
    macros: HashSet<String>,
    children: HashSet<String>,
    /// What each `use` brings in, by the name that it has here.
    imports: Vec<(String, ModulePath)>,
    globs: Vec<ModulePath>,
}

#[derive(Default)]
struct Tree {
    modules: HashMap<ModulePath, Module>,
    /// Macros that are items of the root, wherever they stand, with the file of each.
    exported: Vec<(String, String)>,
    code: Vec<(ModulePath, Vec<Item>)>,
}

impl Tree {
    fn read(&mut self, file: String, path: ModulePath, source: &dyn Fn(&str) -> Option<String>) {
        let text = source(&file).unwrap_or_else(|| panic!("{file}: no such file"));
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{file}: {e}"));
        self.add(&file, path, parsed.items, source);
    }

    fn add(
        &mut self,
        file: &str,
        path: ModulePath,
        items: Vec<Item>,
        source: &dyn Fn(&str) -> Option<String>,
    ) {
        let mut module = Module {
            file: file.to_owned(),
            ..Module::default()
        };
        let mut code = Vec::new();
        for item in items {
            if of_tests(attributes(&item)) {
                continue;
            }
            if let Item::Mod(declared) = item {
                let name = declared.ident.to_string();
                let mut child = path.clone();
                child.push(name.clone());
                match declared.content {
                    Some((_, items)) => self.add(file, child, items, source),
                    None => {
                        let lies_in = match file.rsplit_once('/') {
                            Some((dir, "mod.rs")) => format!("{dir}/"),
                            None if path.is_empty() => String::new(),
                            _ => format!("{}/", file.trim_end_matches(".rs")),
                        };
                        let own = [
                            format!("{lies_in}{name}.rs"),
                            format!("{lies_in}{name}/mod.rs"),
                        ];
                        let exists = own.into_iter().find(|f| source(f).is_some());
                        self.read(exists.expect("the module's file"), child, source);
                    }
                }
                module.children.insert(name);
                continue;
            }
            code.push(item);
        }
        let mut declared = Declared(&mut module, Vec::new());
        for item in &code {
            declared.visit_item(item);
            if let Some(name) = name_of(item) {
                if matches!(item, Item::Macro(_)) {
                    declared.0.macros.insert(name.clone());
                }
                declared.0.items.insert(name);
            }
        }
        let exported = declared.1.into_iter();
        self.exported
            .extend(exported.map(|name| (name, file.to_owned())));
        self.modules.insert(path.clone(), module);
        self.code.push((path, code));
    }

    /// What a path means in a module.
    fn resolve(&self, module: &[String], path: &[String], seen: &mut Seen) -> BTreeSet<Meaning> {
        let Some((first, rest)) = path.split_first() else {
            return BTreeSet::from([Meaning::Module(module.to_vec())]);
        };
        let found = match first.as_str() {
            "crate" => BTreeSet::from([Meaning::Module(Vec::new())]),
            "self" => BTreeSet::from([Meaning::Module(module.to_vec())]),
            "super" => match module.split_last() {
                Some((_, parent)) => BTreeSet::from([Meaning::Module(parent.to_vec())]),
                None => BTreeSet::new(),
            },
            name => self.named(module, name, seen),
        };
        self.follow(found, rest, seen)
    }

    fn follow(
        &self,
        found: BTreeSet<Meaning>,
        rest: &[String],
        seen: &mut Seen,
    ) -> BTreeSet<Meaning> {
        let Some((first, further)) = rest.split_first() else {
            return found;
        };
        let mut modules = found.iter().filter_map(|m| match m {
            Meaning::Module(path) => Some(path),
            Meaning::Item(_) => None,
        });
        let Some(module) = modules.next() else {
            return found;
        };
        if ["self", "super"].contains(&first.as_str()) {
            return self.resolve(module, rest, seen);
        }
        let mut within = self.named(module, first, seen);
        if within.is_empty() && !self.brings(module, first) {
            within.insert(Meaning::Item(self.modules[module].file.clone()));
        }
        self.follow(within, further, seen)
    }

    /// Whether a name in a module comes from another crate: so it does if it has no meaning here.
    fn brings(&self, module: &[String], name: &str) -> bool {
        self.modules[module].imports.iter().any(|(n, _)| n == name)
    }

    fn named(&self, module: &[String], name: &str, seen: &mut Seen) -> BTreeSet<Meaning> {
        let mut found = BTreeSet::new();
        if !seen.insert((module.to_vec(), name.to_owned())) {
            return found;
        }
        let here = &self.modules[module];
        if here.children.contains(name) {
            let mut child = module.to_vec();
            child.push(name.to_owned());
            found.insert(Meaning::Module(child));
        }
        if here.items.contains(name) {
            found.insert(Meaning::Item(here.file.clone()));
        }
        let exported = self.exported.iter().filter(|_| module.is_empty());
        for (_, file) in exported.filter(|(n, _)| n == name) {
            found.insert(Meaning::Item(file.clone()));
        }
        for (_, path) in here.imports.iter().filter(|(n, _)| n == name) {
            found.extend(self.resolve(module, path, seen));
        }
        if found.is_empty() {
            for glob in &here.globs {
                for meaning in self.resolve(module, glob, seen) {
                    if let Meaning::Module(path) = meaning {
                        found.extend(self.named(&path, name, seen));
                    }
                }
            }
        }
        found
    }
}

/// Names that are being looked up: imports may go in circles.
type Seen = HashSet<(ModulePath, String)>;

/// Collects the names that the `use` items of a module import, including those in its functions, and the macros that it
/// exports.
struct Declared<'a>(&'a mut Module, Vec<String>);

impl<'ast> Visit<'ast> for Declared<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if of_tests(&item.attrs) || item.leading_colon.is_some() {
            return;
        }
        each_use(&item.tree, &mut Vec::new(), &mut |path, name| match name {
            Some(name) => self.0.imports.push((name.to_owned(), path.to_vec())),
            None => self.0.globs.push(path.to_vec()),
        });
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        let exported = item.attrs.iter().any(|a| a.path().is_ident("macro_export"));
        if let Some(name) = item.ident.as_ref().filter(|_| exported) {
            self.1.push(name.to_string());
        }
    }
}

/// Calls `found` with each path of a `use`, and the name that it brings in; without one for `*`.
fn each_use(tree: &UseTree, path: &mut ModulePath, found: &mut dyn FnMut(&[String], Option<&str>)) {
    let mut leaf = |name: String, known_as: String| {
        if name == "self" {
            let known_as = if known_as == "self" {
                path.last().cloned()
            } else {
                Some(known_as)
            };
            found(path, known_as.as_deref());
        } else {
            path.push(name);
            found(path, Some(&known_as));
            path.pop();
        }
    };
    match tree {
        UseTree::Name(name) => leaf(name.ident.to_string(), name.ident.to_string()),
        UseTree::Rename(name) => leaf(name.ident.to_string(), name.rename.to_string()),
        UseTree::Glob(_) => found(path, None),
        UseTree::Path(deeper) => {
            path.push(deeper.ident.to_string());
            each_use(&deeper.tree, path, found);
            path.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                each_use(tree, path, found);
            }
        }
    }
}

/// Notes an edge for every path in the code of one module.
struct Names<'a> {
    tree: &'a Tree,
    module: &'a [String],
    file: &'a str,
    edges: &'a mut Edges,
}

impl Names<'_> {
    fn name(&mut self, path: &[String]) {
        for meaning in self.tree.resolve(self.module, path, &mut Seen::new()) {
            if let Meaning::Item(file) = meaning
                && file != self.file
            {
                self.edges
                    .entry((self.file.to_owned(), file))
                    .or_insert_with(|| path.join("::"));
            }
        }
    }

    /// A macro that is called without a path may be defined in a module above, before this module is declared there.
    fn textual(&mut self, name: &str) {
        for above in 0..self.module.len() {
            let module = &self.tree.modules[&self.module[..above]];
            if module.macros.contains(name) && module.file != self.file {
                let edge = (self.file.to_owned(), module.file.clone());
                self.edges.entry(edge).or_insert_with(|| format!("{name}!"));
            }
        }
    }

    /// Whether a path leads to a module below this one.
    fn below(&self, path: &[String]) -> bool {
        let first = self.tree.resolve(self.module, &path[..1], &mut Seen::new());
        first.iter().any(|m| match m {
            Meaning::Module(child) => {
                child.len() > self.module.len() && child.starts_with(self.module)
            }
            Meaning::Item(_) => false,
        })
    }

    /// Paths in the arguments of a macro, or in the body of a macro's definition.
    fn tokens(&mut self, tokens: TokenStream, before: &[String]) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let punct = |at: usize, c: char| matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == c);
        let mut at = 0;
        while at < tokens.len() {
            let start = at;
            at += 1;
            match &tokens[start] {
                TokenTree::Group(group) => self.tokens(group.stream(), &[]),
                TokenTree::Ident(ident) => {
                    let mut path = before.to_vec();
                    path.push(ident.to_string());
                    while punct(at, ':') && punct(at + 1, ':') {
                        match tokens.get(at + 2) {
                            Some(TokenTree::Ident(ident)) => path.push(ident.to_string()),
                            Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Brace => {
                                self.tokens(g.stream(), &path);
                            }
                            _ => break,
                        }
                        at += 3;
                    }
                    let preceded = |c| start > 0 && punct(start - 1, c);
                    let field = preceded('.') && !(start > 1 && punct(start - 2, '.'));
                    let variable = preceded('$') && ident != "crate";
                    let absolute = preceded(':') && start > 1 && punct(start - 2, ':');
                    if !field && !variable && !absolute && !preceded('\'') {
                        self.name(&path);
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !of_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes = match item {
            ImplItem::Const(i) => &i.attrs,
            ImplItem::Fn(i) => &i.attrs,
            ImplItem::Type(i) => &i.attrs,
            ImplItem::Macro(i) => &i.attrs,
            _ => return,
        };
        if !of_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_some() {
            return;
        }
        let exports = !matches!(item.vis, Visibility::Inherited);
        each_use(&item.tree, &mut Vec::new(), &mut |path, _| {
            if !(exports && self.below(path)) {
                self.name(path);
            }
        });
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
            self.name(&names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        if let Some(name) = call.path.get_ident() {
            self.textual(&name.to_string());
        }
        self.tokens(call.tokens.clone(), &[]);
    }
}

fn of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|a| {
        let syn::Meta::List(list) = &a.meta else {
            return false;
        };
        let condition = list.tokens.to_string();
        list.path.is_ident("cfg") && (condition == "test" || condition.starts_with("all (test"))
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::ExternCrate(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::ForeignMod(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Union(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(i) => &i.ident,
        Item::Enum(i) => &i.ident,
        Item::Fn(i) => &i.sig.ident,
        Item::Macro(i) => i.ident.as_ref()?,
        Item::Static(i) => &i.ident,
        Item::Struct(i) => &i.ident,
        Item::Trait(i) => &i.ident,
        Item::Type(i) => &i.ident,
        Item::Union(i) => &i.ident,
        _ => return None,
    };
    Some(name.to_string())
}
