// What XProf's pages expect of a browser and a sandbox without an origin refuses: here it lasts as long as the page.
for (const name of ["localStorage", "sessionStorage"]) {
  const kept = new Map();
  const storage = {
    getItem: (key) => (kept.has(String(key)) ? kept.get(String(key)) : null),
    setItem: (key, value) => void kept.set(String(key), String(value)),
    removeItem: (key) => void kept.delete(String(key)),
    clear: () => kept.clear(),
    key: (number) => [...kept.keys()][number] ?? null,
    get length() { return kept.size; },
  };
  Object.defineProperty(window, name, { value: storage });
}
Object.defineProperty(window, "origin", { value: location.origin });
Object.defineProperty(document, "cookie", { get: () => "", set: () => {} });
for (const name of ["pushState", "replaceState"]) {
  const own = history[name].bind(history);
  history[name] = (state, title, address) => {
    try { own(state, title, address); } catch { own(state, title); }
  };
}
