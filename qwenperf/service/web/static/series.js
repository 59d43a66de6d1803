// Draws one series over the drawing that the server sent: points with the band of their intervals, lines at changes.
// Zooming asks the server for a finer part; keys step through points. Without this file the page says the same.
"use strict";

(function () {
  const element = document.getElementById("chart");
  if (!element || typeof uPlot === "undefined") return;
  const told = document.getElementById("chart-told");
  const help = document.getElementById("chart-help");
  const whole = JSON.parse(element.dataset.chart);
  const dots = element.dataset.dots === "yes";
  if (!whole.at.length) return;
  let shown = whole;
  let plot = null;

  const units = {
    s: [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]],
    bytes: [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]],
  };

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function quantity(value) {
    if (value === null || value === undefined) return "-";
    const steps = units[whole.unit];
    if (!steps) {
      const text = Number(value.toPrecision(4)).toLocaleString("en");
      return whole.unit === "ratio" || whole.unit === "count" ? text : text + " " + whole.unit;
    }
    const step = steps.find(([size]) => Math.abs(value) >= size) || steps[steps.length - 1];
    return Number((value / step[0]).toPrecision(4)).toLocaleString("en") + " " + step[1];
  }

  // Ticks leave the unit out where it is the same for all of them.
  function ticks(values) {
    return values.map((value) => (units[whole.unit] ? quantity(value) : Number(value.toPrecision(6)).toLocaleString("en")));
  }

  // Room for the longest of them, by the letters of the page.
  function room(chart, values) {
    if (!values) return 50;
    chart.ctx.save();
    chart.ctx.font = getComputedStyle(element).fontSize + " sans-serif";
    const widest = Math.max(...values.map((value) => chart.ctx.measureText(value).width));
    chart.ctx.restore();
    return Math.ceil(widest) + 16;
  }

  // Times of the service are UTC; a day is written once.
  function times(_, seconds) {
    let day = "";
    return seconds.map((one) => {
      const [date, clock] = new Date(one * 1000).toISOString().split("T");
      const text = date === day ? clock.slice(0, 5) : clock.startsWith("00:00") ? date : clock.slice(0, 5) + "\n" + date;
      day = date;
      return text;
    });
  }

  function columns(data) {
    return [data.at, data.value, data.low, data.high];
  }

  function markPlugin() {
    return {
      hooks: {
        draw: [(chart) => {
          const context = chart.ctx;
          context.save();
          context.lineWidth = 2 * devicePixelRatio;
          for (const mark of shown.marks) {
            const x = chart.valToPos(mark.at, "x", true);
            if (x < chart.bbox.left || x > chart.bbox.left + chart.bbox.width) continue;
            context.strokeStyle = colour(mark.state === "confirmed" ? "--bad" : mark.state === "open" ? "--doubt" : "--faint");
            context.setLineDash(mark.state === "confirmed" ? [] : [6 * devicePixelRatio, 4 * devicePixelRatio]);
            context.beginPath();
            context.moveTo(x, chart.bbox.top);
            context.lineTo(x, chart.bbox.top + chart.bbox.height);
            context.stroke();
          }
          context.restore();
          if (shown.at.length === 1) errorBar(chart);
        }],
      },
    };
  }

  // A band needs two points: one has a bar with ends instead.
  function errorBar(chart) {
    if (shown.low[0] === null || shown.high[0] === null) return;
    const context = chart.ctx;
    const x = chart.valToPos(shown.at[0], "x", true);
    const ends = [shown.low[0], shown.high[0]].map((value) => chart.valToPos(value, "y", true));
    const cap = 6 * devicePixelRatio;
    context.save();
    context.strokeStyle = colour("--bar");
    context.lineWidth = 1.5 * devicePixelRatio;
    context.beginPath();
    context.moveTo(x, ends[0]);
    context.lineTo(x, ends[1]);
    for (const y of ends) {
      context.moveTo(x - cap, y);
      context.lineTo(x + cap, y);
    }
    context.stroke();
    context.restore();
  }

  // One moment has no range of its own: a day on either side.
  function span() {
    const first = shown.at[0];
    const alone = first === shown.at[shown.at.length - 1];
    return alone ? { time: true, range: [first - 86400, first + 86400] } : { time: true };
  }

  function axis(more) {
    return Object.assign({ stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } }, more);
  }

  function options() {
    const bar = colour("--bar");
    const edge = { stroke: "transparent", width: 0, points: { show: false } };
    return {
      width: element.clientWidth,
      height: Math.max(220, Math.min(380, Math.round(element.clientWidth * 0.4))),
      scales: { x: span() },
      series: [
        { label: "time" },
        { label: whole.name, stroke: bar, width: dots ? 0 : 1.5, points: { show: dots || shown.at.length < 200, size: 6, fill: bar } },
        Object.assign({ label: "from" }, edge),
        Object.assign({ label: "to" }, edge),
      ],
      bands: dots ? [] : [{ series: [3, 2], fill: bar + "40" }],
      axes: [axis({ values: times, space: 80 }), axis({ size: room, values: (_, values) => ticks(values) })],
      legend: { show: false },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 9 } },
      plugins: [markPlugin()],
      hooks: {
        setCursor: [(chart) => say(chart.cursor.idx)],
        setSelect: [(chart) => {
          if (chart.select.width < 5) return;
          look(chart.posToVal(chart.select.left, "x"), chart.posToVal(chart.select.left + chart.select.width, "x"));
          chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        }],
      },
    };
  }

  function say(index) {
    if (index === null || index === undefined) return;
    const time = new Date(shown.at[index] * 1000).toISOString().slice(0, 16).replace("T", " ");
    const interval = shown.low[index] === null ? "" : ", " + quantity(shown.low[index]) + " to " + quantity(shown.high[index]);
    const near = shown.marks.filter((mark) => shown.at[index] <= mark.at && (index + 1 >= shown.at.length || shown.at[index + 1] > mark.at));
    told.textContent = time + " UTC: " + quantity(shown.value[index]) + interval + (shown.told[index] ? ", " + shown.told[index] : "") + near.map((mark) => "; " + mark.state + ": " + mark.told).join("");
  }

  function draw() {
    if (plot) plot.destroy();
    else element.replaceChildren();
    plot = new uPlot(options(), columns(shown), element);
    plot.over.addEventListener("dblclick", () => { shown = whole; draw(); });
    plot.over.addEventListener("click", () => open(plot.cursor.idx));
  }

  function open(index) {
    if (index !== null && index !== undefined && shown.href[index] && plot.select.width === 0) location.href = shown.href[index];
  }

  async function look(start, end) {
    const answer = await fetch(element.dataset.more + "&start=" + start + "&end=" + end, { headers: { Accept: "application/json" } });
    if (!answer.ok) {
      told.textContent = "A closer look is not to be had now (" + answer.status + ").";
      return;
    }
    const found = await answer.json();
    if (!found.at.length) return;
    shown = found;
    draw();
  }

  element.tabIndex = 0;
  element.setAttribute("role", "group");
  element.setAttribute("aria-label", "Chart of " + whole.name + "; the table of points below says the same");
  element.addEventListener("keydown", (event) => {
    const last = shown.at.length - 1;
    const here = plot.cursor.idx === null || plot.cursor.idx === undefined ? last + 1 : plot.cursor.idx;
    const steps = { ArrowLeft: Math.max(0, here - 1), ArrowRight: Math.min(last, here + 1) };
    if (event.key in steps) {
      const index = steps[event.key];
      plot.setCursor({ left: plot.valToPos(shown.at[index], "x"), top: plot.valToPos(shown.value[index], "y") });
      say(index);
      event.preventDefault();
    } else if (event.key === "Home") {
      shown = whole;
      draw();
      event.preventDefault();
    } else if (event.key === "Enter" && event.target === element) {
      open(plot.cursor.idx);
    }
  });
  if (help) help.hidden = false;
  draw();
  let width = element.clientWidth;
  new ResizeObserver(() => {
    if (Math.abs(element.clientWidth - width) < 2) return;
    width = element.clientWidth;
    plot.setSize({ width, height: plot.height });
  }).observe(element);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
