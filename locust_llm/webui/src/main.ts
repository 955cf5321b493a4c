/** One script for both: a report carries its data in the page, the live page asks for it. */

import { element } from "./format";
import { LivePage } from "./live";
import { showReport } from "./report";
import type { Report } from "./reply";

const root = document.body.appendChild(element("main"));
const data = document.getElementById("llm-run");

if (data) showReport(root, JSON.parse(data.textContent ?? "") as Report);
else new LivePage(root);
