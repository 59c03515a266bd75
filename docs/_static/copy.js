// A button on every code block: copies code as it is, and commands without prompt and output.
"use strict";

function copied(text) {
  const lines = text.replace(/\n$/, "").split("\n");
  if (!lines.some((line) => line.startsWith("$ "))) return lines.join("\n");
  const commands = [];
  let continued = false;
  for (const line of lines) {
    if (line.startsWith("$ ") || continued) {
      commands.push(line.replace(/^\$ /, ""));
      continued = line.endsWith("\\");
    }
  }
  return commands.join("\n");
}

document.addEventListener("DOMContentLoaded", () => {
  if (!navigator.clipboard) return; // only pages from https, localhost or a file may write to it
  for (const block of document.querySelectorAll("div.highlight")) {
    const code = block.querySelector("pre");
    const drawing = block.parentElement.classList.contains("highlight-text");
    if (drawing && !code.textContent.startsWith("$ ")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(copied(code.textContent));
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    block.append(button);
  }
});
