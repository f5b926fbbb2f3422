// How are the charts of a report drawn? With Plotly, in the colours of style.css, again when the scheme changes.
"use strict";

(function () {
  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  function number(value) {
    return value.toLocaleString("en", { maximumSignificantDigits: value >= 1000 ? 6 : 3 });
  }

  // Titles and hovers of Plotly read a little HTML: what came from outside must not.
  function plain(text) {
    return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  function wrap(text, width) {
    const lines = [""];
    for (const word of String(text).split(" ")) {
      const last = lines.length - 1;
      if ((lines[last] + " " + word).length > width && lines[last]) lines.push(word);
      else lines[last] = (lines[last] + " " + word).trim();
    }
    return lines.map(plain).join("<br>");
  }

  function shape(extra) {
    const axis = { gridcolor: colour("line"), linecolor: colour("strong-line"), zeroline: false, fixedrange: true, automargin: true };
    return Object.assign({
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("soft") },
      margin: { l: 8, r: 8, t: 8, b: 8 },
      hoverlabel: { bgcolor: colour("surface"), bordercolor: colour("strong-line"), font: { color: colour("ink"), size: 13 }, align: "left" },
      showlegend: false, // The page has a legend of its own, which wraps.
      dragmode: false,
    }, extra, { xaxis: Object.assign({}, axis, extra.xaxis), yaxis: Object.assign({}, axis, extra.yaxis) });
  }

  const options = { displayModeBar: false, responsive: true, scrollZoom: false };

  function place(point) {
    return point.width + "×" + point.depth;
  }

  function hover(point) {
    return "<b>W=" + point.width + " × D=" + point.depth + "</b><br>" + number(point.throughput) + " samples/s<br>" + wrap(point.words, 44) + (point.missing ? "<br><i>" + wrap(point.missing, 44) + "</i>" : "");
  }

  function series(points, extra) {
    return Object.assign({
      type: "scatter", mode: "markers", x: points.map((point) => point.depth), y: points.map((point) => point.throughput),
      text: points.map(hover), hovertemplate: "%{text}<extra></extra>",
    }, extra);
  }

  // Where two ticks would touch, the layout with the higher throughput keeps its label.
  function ticks(points, element) {
    const most = Math.log2(Math.max(2, ...points.map((point) => point.depth)));
    const room = 58 * most / Math.max(200, element.clientWidth - 80);
    const kept = [];
    for (const point of [...points].sort((one, other) => other.throughput - one.throughput)) {
      const at = Math.log2(point.depth);
      if (kept.every((other) => Math.abs(Math.log2(other.depth) - at) >= room)) kept.push(point);
    }
    return kept.sort((one, other) => one.depth - other.depth);
  }

  function drawThroughput(element, data) {
    const stems = { x: [], y: [] };
    for (const point of data.best) {
      stems.x.push(point.depth, point.depth, null);
      stems.y.push(0, point.throughput, null);
    }
    const reasons = data.none.map((entry) => "<b>W=" + entry.width + " × D=" + entry.depth + "</b><br>" + wrap(entry.reason, 44));
    const traces = [
      { type: "scatter", mode: "lines", x: stems.x, y: stems.y, line: { color: colour("strong-line"), width: 1.5 }, hoverinfo: "skip" },
      series(data.others, { marker: { size: 7, color: colour("paper"), line: { color: colour("soft"), width: 1.3 } } }),
      series(data.best, { marker: { size: 12, color: colour("soft") } }),
    ];
    if (data.none.length) {
      traces.push({
        type: "scatter", mode: "markers", x: data.none.map((entry) => entry.depth), y: data.none.map(() => 0),
        marker: { symbol: "x-thin", size: 8, line: { color: colour("warn"), width: 1.6 } }, text: reasons, hovertemplate: "%{text}<extra></extra>", cliponaxis: false,
      });
    }
    if (data.chosen) traces.push(series([data.chosen], { marker: { size: 16, color: colour("accent"), line: { color: colour("paper"), width: 2 } } }));
    const named = ticks(data.best, element);
    const highest = Math.max(...data.best.map((point) => point.throughput), ...data.others.map((point) => point.throughput));
    return Plotly.react(element, traces, shape({
      hovermode: "closest",
      xaxis: { type: "log", title: { text: element.clientWidth < 560 ? "layout, W×D" : "layout, W×D (over the depth D, logarithmic)", standoff: 14 }, tickvals: named.map((point) => point.depth), ticktext: named.map(place), showgrid: false },
      yaxis: { title: { text: "samples/s", standoff: 10 }, range: [-0.03 * highest, 1.08 * highest], rangemode: "tozero" },
    }), options);
  }

  function drawMemory(element, data) {
    const traces = data.parts.map((part) => ({
      type: "bar", name: part.label, x: data.ranks, y: part.sizes,
      marker: { color: colour(part.key), line: { color: colour("paper"), width: 0.6 }, pattern: part.key === "reserve" ? { shape: "/", fgcolor: colour("soft"), bgcolor: colour("reserve"), size: 5, solidity: 0.15 } : {} },
      hovertemplate: "rank %{x}: " + plain(part.label) + " %{y:.3~g} GB<extra></extra>",
    }));
    const totals = data.ranks.map((_, at) => data.parts.reduce((sum, part) => sum + part.sizes[at], 0));
    const top = 1.12 * Math.max(data.capacity, ...totals);
    return Plotly.react(element, traces, shape({
      barmode: "stack", bargap: data.ranks.length > 24 ? 0.12 : 0.32, hovermode: "closest",
      xaxis: { title: { text: "rank of the pipeline", standoff: 10 }, dtick: data.ranks.length <= 16 ? 1 : undefined, showgrid: false },
      yaxis: { title: { text: "GB", standoff: 10 }, range: [0, top] },
      shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: data.capacity, y1: data.capacity, line: { color: colour("warn"), width: 2, dash: "dash" } }],
      annotations: [{ xref: "paper", x: 1, xanchor: "right", y: data.capacity, yanchor: "bottom", text: "capacity " + number(data.capacity) + " GB", showarrow: false, font: { color: colour("warn"), size: 13 } }],
    }), options);
  }

  function draw() {
    const source = document.getElementById("charts");
    if (!source || !window.Plotly) return;
    const charts = JSON.parse(source.textContent);
    const throughput = document.getElementById("chart-throughput");
    const memory = document.getElementById("chart-memory");
    if (throughput && charts.throughput.best.length) drawThroughput(throughput, charts.throughput);
    if (memory && charts.memory) drawMemory(memory, charts.memory);
    document.documentElement.dataset.drawn = "true";
  }

  draw();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  window.matchMedia("print").addEventListener("change", draw);
})();
