// This file writes a self-contained HTML page without scripts.

package report

import (
	"fmt"
	"html/template"
	"io"
	"regexp"
)

// Page is a document of sections.
type Page struct {
	Title    string
	Lead     []string
	Sections []Section
}

// Section contains text, pictures and tables.
type Section struct {
	ID       string
	Title    string
	Text     []string
	Pictures []string // SVG documents
	Tables   []PageTable
}

// PageTable is a table with a caption. Rows with an index in Strong are highlighted.
type PageTable struct {
	Caption string
	Table   Table
	Strong  map[int]bool
}

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	// This is safe, because this package drew the pictures and escaped the names in them.
	"svg": func(s string) template.HTML { return template.HTML(inline(s)) },
}).Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title>
<style>
body{font:15px/1.45 system-ui,sans-serif;max-width:75em;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0;font-size:13px}
caption{text-align:left;font-weight:600;padding:.3em 0}
th,td{padding:.15em .6em;border-bottom:1px solid #ddd;text-align:right;font-variant-numeric:tabular-nums}
th:first-child,td:first-child{text-align:left}
tr.strong{background:#eef4fb}
svg{max-width:48%;height:auto;vertical-align:top}
nav a{margin-right:1em}
.wide{overflow-x:auto}
</style></head><body>
<h1>{{.Title}}</h1>
{{range .Lead}}<p>{{.}}</p>
{{end}}<nav>{{range .Sections}}<a href="#{{.ID}}">{{.Title}}</a> {{end}}</nav>
{{range .Sections}}<h2 id="{{.ID}}">{{.Title}}</h2>
{{range .Text}}<p>{{.}}</p>
{{end}}{{range .Pictures}}{{svg .}}
{{end}}{{range .Tables}}{{$strong := .Strong}}<div class="wide"><table><caption>{{.Caption}}</caption>
<thead><tr>{{range .Table.Head}}<th>{{.}}</th>{{end}}</tr></thead><tbody>
{{range $i, $r := .Table.Rows}}<tr{{if index $strong $i}} class="strong"{{end}}>{{range $r}}<td>{{.}}</td>{{end}}</tr>
{{end}}</tbody></table></div>
{{end}}{{end}}</body></html>
`))

// prologue matches the start of an SVG document up to its root element. A page must not contain this start.
var prologue = regexp.MustCompile(`(?s)^\s*(<\?xml.*?\?>)?\s*(<!DOCTYPE.*?>)?\s*(<!--.*?-->)?\s*`)

func inline(svg string) string { return prologue.ReplaceAllString(svg, "") }

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	if err := pageTemplate.Execute(w, p); err != nil {
		return fmt.Errorf("write the page %s: %w", p.Title, err)
	}
	return nil
}
