/* texcell-wu parameters: prints the parameters of an analysis. */
#include <stdio.h>
#include <string.h>

#include "app/analysis/analysis.h"
#include "app/base/command.h"
#include "workunits/tools/tools.h"

const char wu_parameters_help[] =
    "usage: texcell-wu parameters [--json] [NAME]\n"
    "\n"
    "Lists the parameters of the analysis NAME: what each may be, its default and\n"
    "what it does. Without NAME: the analyses.\n"
    "\n"
    "  --json   as JSON, with types, bounds and choices; without NAME of all analyses\n";

/* --- for people ------------------------------------------------------------------------------ */

/* Prints the text indented by four columns, in lines of up to 80 characters. */
static void print_wrapped(const char *text)
{
    size_t column = 0;

    while (*text != '\0') {
        const size_t n = strcspn(text, " ");

        if (column == 0 || column + 1 + n > 80) {
            printf("%s    %.*s", column > 0 ? "\n" : "", (int)n, text);
            column = 4 + n;
        } else {
            printf(" %.*s", (int)n, text);
            column += 1 + n;
        }
        text += n + strspn(text + n, " ");
    }
    putchar('\n');
}

/* Prints the parameters in `keys`. outer: the path of the object that contains them, such as
 * "init", or "" for the parameters of the analysis. */
static void print_keys(const an_param *keys, const char *outer)
{
    for (const an_param *p = keys; p->key != NULL; p++) {
        /* A required key has the default NULL, and a key that may be missing has the default "". A
         * preset may always be missing. */
        const bool optional =
            p->type == AN_PRESET || (p->default_value != NULL && p->default_value[0] == '\0');
        char path[128];

        snprintf(path, sizeof path, "%s%s%s", outer, outer[0] != '\0' ? "." : "", p->key);
        printf("\n%s\n    %s", path, an_value_in_words(p).text);
        if (p->unit != NULL)
            printf(" (%s)", p->unit);
        if (optional)
            printf("; may be left out");
        else
            printf(p->default_value == NULL ? "; required" : "; default %s", p->default_value);
        /* The parameter is allowed only with certain choices of the first of `keys`. */
        if (p->allowed_choices != 0)
            printf("; only with %s %s", keys->key, an_condition_in_words(p, keys).text);
        putchar('\n');
        print_wrapped(p->help);
        if (p->keys != NULL)
            print_keys(p->keys, path);
    }
}

/* --- for programs ---------------------------------------------------------------------------- */

/* Sets `key` in the object to the value if `has` is true. Takes over the reference to the value in
 * any case. Returns false if there is no memory. */
static bool set_value(json_t *object, const char *key, bool has, json_t *value)
{
    if (has)
        return json_object_set_new(object, key, value) == 0;
    json_decref(value);
    return true;
}

static json_t *describe_keys(const an_param *keys);

/* Returns a list of the choices i for which bit i of `bits` is set. Choices are written as defaults
 * are, so an_parse_default parses them, too. Returns NULL if there is no memory. */
static json_t *describe_choices(const char *const *choices, unsigned bits)
{
    json_t *list = json_array();

    for (size_t i = 0; choices != NULL && choices[i] != NULL && list != NULL; i++)
        if ((bits >> i & 1) != 0 &&
            json_array_append_new(list, an_parse_default(choices[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

/* Describes a parameter as JSON. keys: all parameters of the object that contains p. Returns NULL
 * if there is no memory. */
static json_t *describe_parameter(const an_param *p, const an_param *keys)
{
    static const char *const types[] = { "boolean", "integer", "number",  "choice", "integers",
                                         "words",   "object",  "objects", "preset" };
    const bool bounded = p->type == AN_INT || p->type == AN_NUMBER || p->type == AN_INTS;
    const bool has_default = p->default_value != NULL && p->default_value[0] != '\0';
    const unsigned all = ~0u; /* all choices */
    /* when: an object {FIRST: [...]}. FIRST is the first of `keys`; the list has those of its
     * choices that allow this parameter. */
    json_t *const o = json_object(), *const when = json_object();
    const bool good =
        set_value(o, "key", true, json_string(p->key)) &&
        set_value(o, "type", true, json_string(types[p->type])) &&
        set_value(o, "value", true, json_string(an_value_in_words(p).text)) &&
        set_value(o, "minimum", bounded, json_real(p->min)) &&
        set_value(o, "maximum", bounded, json_real(p->max)) &&
        set_value(o, "above_minimum", p->above_min, json_true()) &&
        set_value(o, "choices", p->choices != NULL, describe_choices(p->choices, all)) &&
        set_value(o, "words", p->words != NULL, describe_choices(p->words, all)) &&
        set_value(o, "default", has_default,
                  has_default ? an_parse_default(p->default_value) : NULL) &&
        set_value(o, "required", p->default_value == NULL && p->type != AN_PRESET, json_true()) &&
        set_value(when, keys->key, true, describe_choices(keys->choices, p->allowed_choices)) &&
        set_value(o, "only_with", p->allowed_choices != 0, json_incref(when)) &&
        set_value(o, "unit", p->unit != NULL, json_string(p->unit)) &&
        set_value(o, "help", true, json_string(p->help)) &&
        set_value(o, "keys", p->keys != NULL, describe_keys(p->keys));

    json_decref(when);
    if (good)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *describe_keys(const an_param *keys)
{
    json_t *list = json_array();

    for (const an_param *p = keys; p != NULL && p->key != NULL && list != NULL; p++)
        if (json_array_append_new(list, describe_parameter(p, keys)) != 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

/* Prints the parameters of the analysis `only` as JSON, or of all analyses if it is NULL. */
static tc_status print_json(const an_analysis *only, tc_err *err)
{
    json_t *const all = json_object();
    bool good = true;

    for (size_t i = 0; an_analyses[i] != NULL && good; i++)
        good = set_value(all, an_analyses[i]->name, only == NULL || only == an_analyses[i],
                         describe_keys(an_analyses[i]->parameters));
    good = good && json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) == 0;
    json_decref(all);
    putchar('\n');
    return good ? TC_OK : tc_no_memory(err, "the list of parameters");
}

/* --- the command ----------------------------------------------------------------------------- */

tc_status wu_find_analysis(const char *name, const an_analysis **out, tc_err *err)
{
    char list[256] = "";

    *out = an_find_analysis(name);
    for (size_t i = 0; an_analyses[i] != NULL; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i > 0 ? ", " : "",
                 an_analyses[i]->name);
    return *out != NULL
               ? TC_OK
               : tc_fail(err, TC_USAGE, "there is no analysis \"%.64s\"; the analyses are: %s",
                         name, list);
}

tc_status wu_parameters(int argc, char **argv, tc_err *err)
{
    bool json = false;
    const tc_option options[] = { { "json", 0, TC_FLAG, .to = &json }, { .name = NULL } };
    const an_analysis *analysis = NULL;
    int n_names;
    return_if_error(tc_read_options(argc, argv, options, &n_names, err));

    if (n_names > 1)
        return tc_fail(err, TC_USAGE, "parameters: takes one NAME, %d given", n_names);
    if (n_names == 1)
        return_if_error(wu_find_analysis(argv[1], &analysis, err));
    if (json)
        return print_json(analysis, err);
    if (analysis == NULL) {
        for (size_t i = 0; an_analyses[i] != NULL; i++)
            printf("%-10s %s\n", an_analyses[i]->name, an_analyses[i]->summary);
        return TC_OK;
    }
    printf("%s: %s\n", analysis->name, analysis->summary);
    print_keys(analysis->parameters, "");
    return TC_OK;
}
