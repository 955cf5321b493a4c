// Shows our page on Locust's LLM tab: a frame between Locust's tabs and the tab's table, there while the tab is chosen.
(() => {
  const FRAME = "llm-charts";

  const place = () => {
    const chosen = document.querySelector('[role="tab"][aria-selected="true"]');
    const frame = document.getElementById(FRAME);
    if (!chosen || chosen.textContent.trim() !== "LLM") {
      if (frame) frame.remove();
      return;
    }
    const tabs = chosen.closest(".MuiTabs-root");
    if (frame || !tabs || !tabs.parentElement) return;
    const made = document.createElement("iframe");
    made.id = FRAME;
    made.title = "LLM figures and charts";
    made.src = "./llm";
    made.style.cssText = "display:block;width:100%;height:1200px;border:0";
    tabs.parentElement.after(made);
  };

  // Once a frame is enough, and spares ours a reload while Locust renders its tabs anew.
  let waiting = false;
  const placeSoon = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      place();
    });
  };

  new MutationObserver(placeSoon).observe(document.documentElement, {
    childList: true, subtree: true, attributes: true, attributeFilter: ["aria-selected"],
  });
  placeSoon();
})();
