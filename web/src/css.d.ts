// In the element for others' pages a style is text; the page's are put into app.css.
declare module "*.css" {
  const text: string;
  export default text;
}
