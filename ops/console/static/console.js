// For comfort alone: every page works without it.
for (const time of document.querySelectorAll("time")) {
  time.title = new Date(time.dateTime).toLocaleString(undefined, { timeZoneName: "short" });
}
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, select, textarea");
  const field = document.querySelector(".filters input");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey && field) {
    event.preventDefault();
    field.focus();
  }
});
