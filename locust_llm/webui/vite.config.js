import { fileURLToPath } from "node:url";

// One classic script, so that the page and a self-contained report can both carry it.
export default {
  define: { "process.env.NODE_ENV": '"production"' }, // in a library vite leaves it; echarts' warnings go with it
  build: {
    outDir: "built",
    target: "es2020",
    reportCompressedSize: false,
    lib: { entry: "src/main.ts", formats: ["iife"], name: "locustLlm", fileName: () => "app.js" },
  },
  resolve: {
    // echarts always brings its Chinese texts; ours are English
    alias: { "../i18n/langZH.js": fileURLToPath(new URL("node_modules/echarts/lib/i18n/langEN.js", import.meta.url)) },
  },
  esbuild: {
    banner: "/* Built from locust_llm/webui/src; holds Apache ECharts, zrender and tslib: see THIRD_PARTY_LICENSES */",
  },
};
