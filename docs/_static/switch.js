// The choice among versions of the manual, in a site that has several.
document.addEventListener("DOMContentLoaded", () => {
  const box = document.getElementById("versions");
  if (!box || manualVersions.length < 2) return;
  const root = new URL(document.documentElement.dataset.content_root || document.getElementById("documentation_options")?.dataset.url_root || "./", location.href);
  const page = location.href.slice(root.href.length).replace(/[?#].*/, "") || "index.html";
  const here = root.pathname.replace(/\/$/, "").split("/").pop();
  const list = box.querySelector("select");
  for (const version of manualVersions) {
    const option = new Option(version.name, version.folder, false, version.folder === here);
    list.add(option);
  }
  list.addEventListener("change", () => {
    const chosen = manualVersions.find(version => version.folder === list.value);
    location.href = new URL(`../${chosen.folder}/${chosen.pages.includes(page) ? page : "index.html"}`, root).href;
  });
  box.hidden = false;
});
