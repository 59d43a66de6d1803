// Every visible text with the contrast between its colour and what is behind it, by WCAG 2's formula.
() => {
  const channels = (color) => {
    const found = color.match(/[\d.]+/g).map(Number);
    return found.length > 3 ? found : [...found, 1];
  };
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((one) => {
      const part = one / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (node) => {
    for (let one = node; one; one = one.parentElement) {
      const color = channels(getComputedStyle(one).backgroundColor);
      if (color[3] === 1) return color;
      if (color[3] !== 0) throw new Error(`half transparent: ${one.className}`);
    }
    return [255, 255, 255, 1];
  };
  const seen = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || !node.checkVisibility() || node.closest("title, desc")) continue;
    const style = getComputedStyle(node);
    const front = channels(node.namespaceURI.endsWith("svg") ? style.fill : style.color);
    const [high, low] = [luminance(front), luminance(behind(node))].sort((a, b) => b - a);
    seen.push([text.slice(0, 40), (high + 0.05) / (low + 0.05)]);
  }
  return seen;
}
