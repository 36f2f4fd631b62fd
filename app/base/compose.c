/* Unicode composition: replaces a letter and the combining marks after it by one character. */
#include "app/base/compose.h"

#include <string.h>

#include "app/base/text.h"

/* pairs: for each letter that composes with the mark, the letter and then the composed character.
 */
static const struct {
    uint32_t mark; /* a combining mark */
    const char *pairs;
} compositions[] = {
    { 0x0300, "AÀEÈIÌNǸOÒUÙWẀYỲaàeèiìnǹoòuùwẁyỳÂẦÊỀÔỒÜǛâầêềôồüǜĂẰăằĒḔēḕŌṐōṑƠỜơờƯỪưừΑᾺΕῈΗῊΙῚ"
              "ΟῸΥῪΩῺαὰεὲηὴιὶοὸυὺωὼϊῒϋῢЕЀИЍеѐиѝἀἂἁἃἈἊἉἋἐἒἑἓἘἚἙἛἠἢἡἣἨἪἩἫἰἲἱἳἸἺἹἻὀὂὁὃὈὊὉὋὐὒὑὓ"
              "ὙὛὠὢὡὣὨὪὩὫ" },
    { 0x0301, "AÁCĆEÉGǴIÍKḰLĹMḾNŃOÓPṔRŔSŚUÚWẂYÝZŹaácćeégǵiíkḱlĺmḿnńoópṕrŕsśuúwẃyýzźÂẤÅǺÆǼÇḈ"
              "ÊẾÏḮÔỐÕṌØǾÜǗâấåǻæǽçḉêếïḯôốõṍøǿüǘĂẮăắĒḖēḗŌṒōṓŨṸũṹƠỚơớƯỨưứΑΆΕΈΗΉΙΊΟΌΥΎΩΏαάεέηή"
              "ιίοόυύωώϊΐϋΰϒϓГЃКЌгѓкќἀἄἁἅἈἌἉἍἐἔἑἕἘἜἙἝἠἤἡἥἨἬἩἭἰἴἱἵἸἼἹἽὀὄὁὅὈὌὉὍὐὔὑὕὙὝὠὤὡὥὨὬὩὭ" },
    { 0x0302, "AÂCĈEÊGĜHĤIÎJĴOÔSŜUÛWŴYŶZẐaâcĉeêgĝhĥiîjĵoôsŝuûwŵyŷzẑẠẬạậẸỆẹệỌỘọộ" },
    { 0x0303, "AÃEẼIĨNÑOÕUŨVṼYỸaãeẽiĩnñoõuũvṽyỹÂẪÊỄÔỖâẫêễôỗĂẴăẵƠỠơỡƯỮưữ" },
    { 0x0304, "AĀEĒGḠIĪOŌUŪYȲaāeēgḡiīoōuūyȳÄǞÆǢÕȬÖȪÜǕäǟæǣõȭöȫüǖǪǬǫǭȦǠȧǡȮȰȯȱΑᾹΙῙΥῩαᾱιῑυῡИӢУӮ"
              "иӣуӯḶḸḷḹṚṜṛṝ" },
    { 0x0306, "AĂEĔGĞIĬOŎUŬaăeĕgğiĭoŏuŭȨḜȩḝΑᾸΙῘΥῨαᾰιῐυῠАӐЕӖЖӁИЙУЎаӑеӗжӂийуўẠẶạặ" },
    { 0x0307, "AȦBḂCĊDḊEĖFḞGĠHḢIİMṀNṄOȮPṖRṘSṠTṪWẆXẊYẎZŻaȧbḃcċdḋeėfḟgġhḣmṁnṅoȯpṗrṙsṡtṫwẇxẋyẏ"
              "zżŚṤśṥŠṦšṧſẛṢṨṣṩ" },
    { 0x0308, "AÄEËHḦIÏOÖUÜWẄXẌYŸaäeëhḧiïoötẗuüwẅxẍyÿÕṎõṏŪṺūṻΙΪΥΫιϊυϋϒϔІЇАӒЕЁЖӜЗӞИӤОӦУӰЧӴЫӸ"
              "ЭӬаӓеёжӝзӟиӥоӧуӱчӵыӹэӭіїӘӚәӛӨӪөӫ" },
    { 0x0309, "AẢEẺIỈOỎUỦYỶaảeẻiỉoỏuủyỷÂẨÊỂÔỔâẩêểôổĂẲăẳƠỞơởƯỬưử" },
    { 0x030a, "AÅUŮaåuůwẘyẙ" },
    { 0x030b, "OŐUŰoőuűУӲуӳ" },
    { 0x030c, "AǍCČDĎEĚGǦHȞIǏKǨLĽNŇOǑRŘSŠTŤUǓZŽaǎcčdďeěgǧhȟiǐjǰkǩlľnňoǒrřsštťuǔzžÜǙüǚƷǮʒǯ" },
    { 0x030f, "AȀEȄIȈOȌRȐUȔaȁeȅiȉoȍrȑuȕѴѶѵѷ" },
    { 0x0311, "AȂEȆIȊOȎRȒUȖaȃeȇiȋoȏrȓuȗ" },
    { 0x0313, "ΑἈΕἘΗἨΙἸΟὈΩὨαἀεἐηἠιἰοὀρῤυὐωὠ" },
    { 0x0314, "ΑἉΕἙΗἩΙἹΟὉΡῬΥὙΩὩαἁεἑηἡιἱοὁρῥυὑωὡ" },
    { 0x031b, "OƠUƯoơuư" },
    { 0x0323, "AẠBḄDḌEẸHḤIỊKḲLḶMṂNṆOỌRṚSṢTṬUỤVṾWẈYỴZẒaạbḅdḍeẹhḥiịkḳlḷmṃnṇoọrṛsṣtṭuụvṿwẉyỵzẓ"
              "ƠỢơợƯỰưự" },
    { 0x0324, "UṲuṳ" },
    { 0x0325, "AḀaḁ" },
    { 0x0326, "SȘTȚsștț" },
    { 0x0327, "CÇDḐEȨGĢHḨKĶLĻNŅRŖSŞTŢcçdḑeȩgģhḩkķlļnņrŗsştţ" },
    { 0x0328, "AĄEĘIĮOǪUŲaąeęiįoǫuų" },
    { 0x032d, "DḒEḘLḼNṊTṰUṶdḓeḙlḽnṋtṱuṷ" },
    { 0x032e, "HḪhḫ" },
    { 0x0330, "EḚIḬUṴeḛiḭuṵ" },
    { 0x0331, "BḆDḎKḴLḺNṈRṞTṮZẔbḇdḏhẖkḵlḻnṉrṟtṯzẕ" },
    { 0x0342, "αᾶηῆιῖυῦωῶϊῗϋῧἀἆἁἇἈἎἉἏἠἦἡἧἨἮἩἯἰἶἱἷἸἾἹἿὐὖὑὗὙὟὠὦὡὧὨὮὩὯ" },
    { 0x0345, "ΑᾼΗῌΩῼάᾴήῄαᾳηῃωῳώῴἀᾀἁᾁἂᾂἃᾃἄᾄἅᾅἆᾆἇᾇἈᾈἉᾉἊᾊἋᾋἌᾌἍᾍἎᾎἏᾏἠᾐἡᾑἢᾒἣᾓἤᾔἥᾕἦᾖἧᾗἨᾘἩᾙἪᾚἫᾛἬᾜ"
              "ἭᾝἮᾞἯᾟὠᾠὡᾡὢᾢὣᾣὤᾤὥᾥὦᾦὧᾧὨᾨὩᾩὪᾪὫᾫὬᾬὭᾭὮᾮὯᾯὰᾲὴῂὼῲᾶᾷῆῇῶῷ" },
    { 0x0653, "\u0627\u0622" },
    { 0x0654, "\u0627\u0623\u0648\u0624\u064a\u0626\u06c1\u06c2\u06d2\u06d3\u06d5\u06c0" },
    { 0x0655, "\u0627\u0625" },
    { 0x093c, "नऩरऱळऴ" },
    { 0x09be, "\u09c7\u09cb" },
    { 0x09d7, "\u09c7\u09cc" },
    { 0x0b3e, "\u0b47\u0b4b" },
    { 0x0b56, "\u0b47\u0b48" },
    { 0x0b57, "\u0b47\u0b4c" },
    { 0x0bbe, "\u0bc6\u0bca\u0bc7\u0bcb" },
    { 0x0bd7, "ஒஔ\u0bc6\u0bcc" },
    { 0x0c56, "\u0c46\u0c48" },
    { 0x0cc2, "\u0cc6\u0cca" },
    { 0x0cd5, "\u0cbf\u0cc0\u0cc6\u0cc7\u0cca\u0ccb" },
    { 0x0cd6, "\u0cc6\u0cc8" },
    { 0x0d3e, "\u0d46\u0d4a\u0d47\u0d4b" },
    { 0x0d57, "\u0d46\u0d4c" },
    { 0x0dca, "\u0dd9\u0dda\u0ddc\u0ddd" },
    { 0x0dcf, "\u0dd9\u0ddc" },
    { 0x0ddf, "\u0dd9\u0dde" },
    { 0x102e, "ဥဦ" },
    { 0x1b35, "ᬅᬆᬇᬈᬉᬊᬋᬌᬍᬎᬑᬒ\u1b3a\u1b3b\u1b3c\u1b3d\u1b3e\u1b40\u1b3f\u1b41\u1b42\u1b43" },
    { 0x3099, "うゔかがきぎくぐけげこごさざしじすずせぜそぞただちぢつづてでとどはばひびふぶへべほぼ"
              "ゝゞウヴカガキギクグケゲコゴサザシジスズセゼソゾタダチヂツヅテデトド"
              "ハバヒビフブヘベホボワヷヰヸヱヹヲヺヽヾ" },
    { 0x309a, "はぱひぴふぷへぺほぽハパヒピフプヘペホポ" },
    { 0x110ba, "\U00011099\U0001109a\U0001109b\U0001109c\U000110a5\U000110ab" },
    { 0x11127, "\U00011131\U0001112e\U00011132\U0001112f" },
    { 0x1133e, "\U00011347\U0001134b" },
    { 0x11357, "\U00011347\U0001134c" },
    { 0x114b0, "\U000114b9\U000114bc" },
    { 0x114ba, "\U000114b9\U000114bb" },
    { 0x114bd, "\U000114b9\U000114be" },
    { 0x115af, "\U000115b8\U000115ba\U000115b9\U000115bb" },
    { 0x11930, "\U00011935\U00011938" },
};

/* Decodes the character at `text` into *out. Returns the address of the next character, or NULL at
 * the end. */
static const char *decode_next(const char *text, uint32_t *out)
{
    const size_t n = text[0] == '\0' ? 0 : tc_decode_utf8(text, out);
    return n > 0 ? text + n : NULL;
}

/* Composes Korean (Hangul) letters into syllables, whose code points are computed from the
 * letters' code points: a leading consonant and a vowel, or a syllable of two letters and a
 * trailing consonant. There are 19 leading consonants, 21 vowels and 27 trailing consonants.
 * Returns 0 if a and b do not compose. */
static uint32_t compose_hangul(uint32_t a, uint32_t b)
{
    /* The code points of the first of each kind; TAIL stands for no trailing consonant. */
    enum { LEAD = 0x1100, VOWEL = 0x1161, TAIL = 0x11a7, SYLLABLE = 0xac00 };
    const uint32_t lead = a - LEAD, vowel = b - VOWEL, tail = b - TAIL, syllable = a - SYLLABLE;
    if (lead < 19 && vowel < 21)
        return SYLLABLE + (lead * 21 + vowel) * 28;
    if (syllable < 19 * 21 * 28 && syllable % 28 == 0 && tail > 0 && tail < 28)
        return a + tail;
    return 0;
}

/* Returns the character that letter a and mark b compose to; 0 if they do not compose. */
static uint32_t compose(uint32_t a, uint32_t b)
{
    for (size_t i = 0; i < sizeof compositions / sizeof *compositions; i++) {
        uint32_t letter = 0, composed = 0;
        const char *text_at = compositions[i].mark == b ? compositions[i].pairs : NULL;
        while (text_at != NULL && (text_at = decode_next(text_at, &letter)) != NULL &&
               (text_at = decode_next(text_at, &composed)) != NULL)
            if (letter == a)
                return composed;
    }
    return compose_hangul(a, b);
}

/* Writes the code point c as UTF-8, without a NUL; returns the number of bytes, 1 to 4. */
static size_t encode_utf8(uint32_t c, char *out)
{
    const size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i > 1; i--, c >>= 6)
        out[i - 1] = (char)(0x80 | (c & 0x3f));
    /* The first byte of 2, 3 or 4 begins with as many ones, then a zero: 0xc0, 0xe0 or 0xf0. */
    out[0] = (char)(n == 1 ? c : (0xf00u >> n & 0xff) | c);
    return n;
}

void tc_compose_accents(char *text)
{
    uint32_t last = 0, c = 0;
    /* The composed text ends at `end`; its last character begins at begin_of_last. */
    char *end = text, *begin_of_last = text;
    for (const char *text_at = text; *text_at != '\0';) {
        const size_t n = tc_decode_utf8(text_at, &c);
        /* 0 if there is no previous character, or if the two do not compose. */
        const uint32_t composed = n > 1 && end > begin_of_last ? compose(last, c) : 0;
        if (composed != 0) {
            last = composed;
            end = begin_of_last + encode_utf8(composed, begin_of_last);
        } else {
            last = n > 0 ? c : 0;
            begin_of_last = end;
            memmove(end, text_at, n > 0 ? n : 1);
            end += n > 0 ? n : 1;
        }
        text_at += n > 0 ? n : 1;
    }
    *end = '\0';
}
